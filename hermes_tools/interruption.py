"""Deadlines and interruption of a tool's work on this machine.

The work polls its deadline and the cancel scope of the calling script, which is cancelled at the end of the script.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import TypeVar

from environments.cancellation import current_scope
from environments.plain_number import plain_number

_POLL_SECONDS = 0.05
"""The poll interval."""
MAX_BLOCKING = 32
_BLOCKING = threading.BoundedSemaphore(MAX_BLOCKING)
"""Limits the threads of `Deadline.run_abandonable`."""

T = TypeVar("T")


class ToolInterruptedError(Exception):
    """The calling script has ended."""


class DeadlineError(Exception):
    """The time is up."""


def raise_if_interrupted() -> None:
    """Raise ToolInterruptedError if the scope of the current thread was cancelled."""
    scope = current_scope()
    if scope and scope.cancelled:
        raise ToolInterruptedError("the call was interrupted")


class Deadline:
    """The end of a call: by time, by the scope of the thread that made the deadline, or by `stop`.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._scope = current_scope()
        self._stopped = False

    def stop(self) -> None:
        """End all work under this deadline."""
        self._stopped = True

    def remaining(self) -> float:
        """Return the seconds left, more than 0.

        Raises:
            DeadlineError: The time is up.
            ToolInterruptedError: The scope was cancelled, or `stop` was called.
        """
        if self._stopped or (self._scope and self._scope.cancelled):
            raise ToolInterruptedError("the call was interrupted")
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineError(f"timed out after {plain_number(self._seconds)} s")
        return left

    def poll_seconds(self) -> float:
        """Return the seconds to wait until the next check of the deadline. Raises as `remaining`."""
        return min(_POLL_SECONDS, self.remaining())

    @contextlib.contextmanager
    def held(self, lock: threading.Lock | threading.Semaphore) -> Iterator[None]:
        """Hold a lock or a semaphore in the block. Raises as `remaining`."""
        self._acquire(lock)
        try:
            yield
        finally:
            lock.release()

    def run_abandonable(self, work: Callable[[], T]) -> T:
        """Return the result of blocking work without a time-out. At the deadline the work is abandoned.

        Abandoned work runs to its end in a thread. At most 32 of these threads run at once in this process. Raises as
        `work` and as `remaining`.
        """
        self._acquire(_BLOCKING)
        future: futures.Future[T] = futures.Future()
        try:
            threading.Thread(target=_run, args=(work, future), name="hermes-web-wait", daemon=True).start()
        except RuntimeError:  # no more threads
            _BLOCKING.release()
            raise
        while not future.done():
            futures.wait([future], timeout=self.poll_seconds())
        return future.result()

    def _acquire(self, lock: threading.Lock | threading.Semaphore) -> None:
        while not lock.acquire(timeout=self.poll_seconds()):
            pass


def _run(work: Callable[[], T], future: futures.Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        _BLOCKING.release()


def held(lock: threading.Lock) -> contextlib.AbstractContextManager[None]:
    """Hold a lock in the block. Raises ToolInterruptedError if the current scope is cancelled first."""
    return Deadline(threading.TIMEOUT_MAX).held(lock)


def wait_for(wait: Callable[[float], bool], seconds: float) -> bool:
    """Wait for a condition until a time-out, or until the current scope is cancelled.

    Args:
        wait: Waits the given seconds for the condition, and returns True if the condition holds.
        seconds: The time-out.

    Returns:
        True if the condition holds.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    if current_scope() is None:
        return wait(min(seconds, threading.TIMEOUT_MAX))
    deadline = Deadline(seconds)
    with contextlib.suppress(DeadlineError):
        while not wait(deadline.poll_seconds()):
            pass
        return True
    return False
