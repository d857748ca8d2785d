"""Waiting for something while other tasks of the event loop go on."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

LONG = 60.0
"""Seconds that nothing takes which is waited for."""
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""Runs a test on both event loops."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(LONG):
        while not holds():
            await anyio.sleep(0.02)
