"""Leaves out the repository's tests for Podman: they need Podman's program, which the plug does not use."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deselect the tests for Podman."""
    items[:] = [item for item in items if not item.name.endswith("[podman]")]
