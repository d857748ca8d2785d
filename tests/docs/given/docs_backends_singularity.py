"""What docs/backends/singularity.md takes for granted: an image."""

from targets.engines import STATE

replaced["tools.sif"] = str(STATE / "e2e-python.sif")  # noqa: F821
