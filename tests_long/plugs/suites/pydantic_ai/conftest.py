"""anyio's plugin runs the checks, on asyncio and on trio, and not pytest-asyncio."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Leave tests to anyio."""
    config.option.asyncio_mode = "strict"
