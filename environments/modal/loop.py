"""An event loop in a thread of its own: what waits for many streams at once, for callers that are threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT = 5.0
"""Seconds for what still runs in the loop to end once it is cancelled."""
WIND_DOWN = 1.0
"""Seconds for it to end by itself before."""


class LoopThread:
    """Runs coroutines until it is closed. It starts with the first one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine, and return its result to be."""
        with self._lock:
            if self._closed:
                coroutine.close()
                raise BrokenPipeError("the environment was cleaned up")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wake(self, event: asyncio.Event) -> None:
        """Set an event of the loop."""
        with self._lock:
            if self._loop and not self._closed:
                self._loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Cancel what runs, and end the thread."""
        with self._lock:
            loop, thread, self._closed = self._loop, self._thread, True
        if loop and thread and thread.is_alive():
            asyncio.run_coroutine_threadsafe(_wind_down(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _wind_down() -> None:
    """Let what has been told to end do so, then cancel the rest and let that clean up behind itself.

    A task that is cancelled before its first step leaves a coroutine behind that was never awaited, such as one by
    which the client library closes a stream.
    """
    await _others(WIND_DOWN)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await _others(CLOSE_TIMEOUT)


async def _others(limit: float) -> None:
    deadline = asyncio.get_running_loop().time() + limit
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            return
        await asyncio.wait(tasks, timeout=left)
