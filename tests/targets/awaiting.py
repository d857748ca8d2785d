"""Waiting for something while other tasks of the event loop go on."""

from __future__ import annotations

from collections.abc import Callable

import anyio

LONG = 60.0
"""Seconds that nothing takes which is waited for."""


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(LONG):
        while not holds():
            await anyio.sleep(0.01)
