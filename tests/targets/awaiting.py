"""Waits for a condition while other tasks of the event loop run."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

LONG = 60.0
"""Time-out of a wait in seconds, far above any real duration."""
on_both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
"""Runs a test on both event loops."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    with anyio.fail_after(LONG):
        while not holds():
            await anyio.sleep(0.02)
