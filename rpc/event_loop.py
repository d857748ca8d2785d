"""An event loop for awaitables returned by a script's tools."""

from __future__ import annotations

import threading
from collections.abc import Awaitable
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import iscoroutine
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio  # importing asyncio takes 0.1 s; programs without async tools do not pay for that


class EventLoopThread:
    """An event loop on a thread of its own, started with the first awaitable.

    All calls of a script share the loop, because clients, locks and queues of asyncio belong to a single loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._closed = False

    @property
    def is_started(self) -> bool:
        """True once an awaitable was submitted."""
        return self._thread is not None

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Run an awaitable on the loop, in this thread's context variables, and return the result.

        Raises:
            BaseException: The awaitable's own error; CancelledError if the loop was closed meanwhile.
            RuntimeError: The loop is closed.
        """
        try:
            settled = self._submit(awaitable)
        except BaseException:
            if iscoroutine(awaitable):
                awaitable.close()  # or Python warns about a coroutine that was never awaited
            raise
        result, error = settled.result()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Cancel all awaitables and stop the thread. Returns at once."""
        with self._lock:
            if not self._closed and self._loop and self._stop:
                self._loop.call_soon_threadsafe(self._stop.set)
            self._closed = True

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the thread to end. A blocking coroutine keeps the thread running."""
        if self._thread:
            self._thread.join(timeout)

    def _submit(self, awaitable: Awaitable[object]) -> Future[tuple[object, BaseException | None]]:
        import asyncio

        # Under the lock, so that every submitted awaitable comes before the stop event and is started.
        with self._lock:
            if self._closed:
                raise RuntimeError("the awaitable was not run: the script has ended")
            return asyncio.run_coroutine_threadsafe(_outcome_of(awaitable), self._loop or self._start())

    def _start(self) -> asyncio.AbstractEventLoop:
        import asyncio

        running: Future[asyncio.AbstractEventLoop] = Future()

        async def run_until_closed() -> None:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="hermes-async-tool"))
            self._stop = asyncio.Event()
            running.set_result(loop)
            await self._stop.wait()

        # Then `asyncio.run` cancels all pending tasks and ends the threads of `to_thread`.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(run_until_closed()), name="hermes-async-tools", daemon=True
        )
        self._thread.start()
        self._loop = running.result()
        return self._loop


async def _outcome_of(awaitable: Awaitable[object]) -> tuple[object, BaseException | None]:
    """Return an awaitable's result and error. SystemExit, which would end the loop, is returned like other errors."""
    import asyncio

    try:
        return await awaitable, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
