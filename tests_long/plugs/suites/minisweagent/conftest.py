"""Of the repository's tests, those for Podman are left out: they ask for its program, which the plug has no use for."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave them out."""
    items[:] = [item for item in items if not item.name.endswith("[podman]")]
