"""What docs/backends/singularity.md takes for granted: an image."""

from targets.engines import require_singularity

replaced["tools.sif"] = str(require_singularity().sif)  # noqa: F821
