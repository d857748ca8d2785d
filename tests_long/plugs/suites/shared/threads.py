"""The threads of a process during awaited calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable


async def threads_of(call: Callable[[], Awaitable[object]], times: int = 20) -> int:
    """Make a call once, then many times at once, and return the largest number of additional threads."""
    await call()
    before = most = threading.active_count()
    tasks = [asyncio.ensure_future(call()) for _ in range(times)]
    while not all(task.done() for task in tasks):
        most = max(most, threading.active_count())
        await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)
    return most - before
