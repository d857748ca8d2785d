"""The images of containers and instances, the same for the peers and for this package."""

from __future__ import annotations

import os
from pathlib import Path

from environments import load_settings

DOCKER_IMAGE = "e2e-python:bookworm"
"""The image of e2e/setup, by default."""
_SANDBOX = Path(os.environ.get("E2E_STATE") or "/var/cache/e2e") / "e2e-python.sandbox"


def docker_image() -> str:
    """Return the image of all containers: from the settings, or of e2e/setup."""
    return load_settings("docker").docker.image or DOCKER_IMAGE


def singularity_image() -> str:
    """Return the image of all instances: from the settings, or of e2e/setup."""
    return load_settings("singularity").singularity.image or str(_SANDBOX)
