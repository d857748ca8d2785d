"""Ends of a tool's work on this machine: a deadline, and the end of the calling script.

The work polls both. The scope of a script's calls is cancelled when the script has ended.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from environments.cancellation import current_scope
from environments.plain_number import plain_number

_POLL_SECONDS = 0.05
"""The time between two checks."""
MAX_BLOCKING = 32
_BLOCKING = threading.BoundedSemaphore(MAX_BLOCKING)
"""Limits the threads of `Deadline.abandoning`."""

T = TypeVar("T")


class ToolInterruptedError(Exception):
    """The calling script has ended."""


class DeadlineError(Exception):
    """The time is up."""


def raise_if_interrupted() -> None:
    """Raise ToolInterruptedError if the scope of the current thread was cancelled."""
    scope = current_scope()
    if scope and scope.cancelled:
        raise ToolInterruptedError("it was interrupted")


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
            DeadlineError: None are left.
            ToolInterruptedError: The scope was cancelled, or `stop` was called.
        """
        if self._stopped or (self._scope and self._scope.cancelled):
            raise ToolInterruptedError("it was interrupted")
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineError(f"timed out after {plain_number(self._seconds)} s")
        return left

    def moment(self) -> float:
        """Return the seconds to wait until the next check of the deadline. Raises as `remaining`."""
        return min(_POLL_SECONDS, self.remaining())

    @contextlib.contextmanager
    def held(self, lock: threading.Lock | threading.Semaphore) -> Iterator[None]:
        """Hold a lock, or a place of a semaphore, in the block. Raises as `remaining`."""
        self._acquire(lock)
        try:
            yield
        finally:
            lock.release()

    def abandoning(self, work: Callable[[], T]) -> T:
        """Return the result of blocking work that cannot be ended. When the time is up, the work is abandoned.

        Its thread then runs to the end of the work. At most 32 of these threads run at once in this process. Raises as
        `work` and as `remaining`.
        """
        self._acquire(_BLOCKING)
        future: Future[T] = Future()
        try:
            threading.Thread(target=_run, args=(work, future), name="hermes-web-wait", daemon=True).start()
        except RuntimeError:  # no more threads
            _BLOCKING.release()
            raise
        while not future.done():
            wait([future], timeout=self.moment())
        return future.result()

    def _acquire(self, lock: threading.Lock | threading.Semaphore) -> None:
        while not lock.acquire(timeout=self.moment()):
            pass


def _run(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        _BLOCKING.release()


def held(lock: threading.Lock) -> contextlib.AbstractContextManager[None]:
    """Hold a lock in the block. Raises ToolInterruptedError if the current scope is cancelled first."""
    return Deadline(threading.TIMEOUT_MAX).held(lock)


def wait_for(come: Callable[[float], bool], seconds: float) -> bool:
    """Wait for a condition, no longer than the current scope lasts.

    Args:
        come: Waits the given seconds for the condition, and returns True if the condition holds.
        seconds: The limit.

    Returns:
        True if the condition holds.

    Raises:
        ToolInterruptedError: The scope was cancelled first.
    """
    if current_scope() is None:
        return come(min(seconds, threading.TIMEOUT_MAX))
    deadline = Deadline(seconds)
    with contextlib.suppress(DeadlineError):
        while not come(deadline.moment()):
            pass
        return True
    return False
