"""Running what tools return to be awaited: one event loop for all calls of one script."""

from __future__ import annotations

import threading
from collections.abc import Awaitable
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import iscoroutine
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio  # importing it takes a tenth of a second, which programs without such tools do not have to spend


class EventLoopThread:
    """An event loop in a thread of its own, which is started when there is something to await.

    It is one for all calls, so that they can share a client, a lock or a queue, which belong to one loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._closed = False

    @property
    def is_started(self) -> bool:
        """Whether anything was awaited."""
        return self._thread is not None

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Await something on the loop, with the context variables of this thread, and return what comes of it.

        Raises:
            BaseException: What the awaitable raised. CancelledError if the loop was closed meanwhile.
            RuntimeError: The loop is closed.
        """
        try:
            settled = self._submit(awaitable)
        except BaseException:
            if iscoroutine(awaitable):
                awaitable.close()  # or Python warns that nobody awaits it
            raise
        result, error = settled.result()
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Cancel what is awaited, and let the thread end. Returns at once."""
        with self._lock:
            if not self._closed and self._loop and self._stop:
                self._loop.call_soon_threadsafe(self._stop.set)
            self._closed = True

    def join(self, timeout: float) -> None:
        """Wait that many seconds for the thread to end. One in which a coroutine does not let go ends when it does."""
        if self._thread:
            self._thread.join(timeout)

    def _submit(self, awaitable: Awaitable[object]) -> Future[tuple[object, BaseException | None]]:
        import asyncio

        # Under the lock, so that all that is handed over comes before the order to stop, and is begun.
        with self._lock:
            if self._closed:
                raise RuntimeError("nothing more is awaited: the script has ended")
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

        # When that has ended, `asyncio.run` cancels all that is still awaited, and ends the threads of `to_thread`.
        self._thread = threading.Thread(
            target=lambda: asyncio.run(run_until_closed()), name="hermes-async-tools", daemon=True
        )
        self._thread.start()
        self._loop = running.result()
        return self._loop


async def _outcome_of(awaitable: Awaitable[object]) -> tuple[object, BaseException | None]:
    """Return what comes of an awaitable. SystemExit, which would end the loop, is returned like every other error."""
    import asyncio

    try:
        return await awaitable, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
