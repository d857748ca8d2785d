"""The deadline of a call of a web tool, which ends as well when the scope of the caller is cancelled."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from environments.cancellation import current_scope
from environments.plain_number import plain_number
from hermes_tools.interruption import ToolInterruptedError

_POLL_SECONDS = 0.05
"""The longest wait between two checks of the deadline."""
MAX_BLOCKING = 32
_BLOCKING = threading.BoundedSemaphore(MAX_BLOCKING)
"""Limits the threads of `Deadline.abandoning`."""

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time is up."""


class Deadline:
    """The end of a call: after its seconds, with the scope that it was made in, or by `stop`.

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
        """Return the seconds that are left, more than 0.

        Raises:
            OutOfTimeError: None are left.
            ToolInterruptedError: The scope was cancelled, or `stop` was called.
        """
        if self._stopped or (self._scope and self._scope.cancelled):
            raise ToolInterruptedError("it was interrupted")
        left = self._end - time.monotonic()
        if left <= 0:
            raise OutOfTimeError(f"timed out after {plain_number(self._seconds)} s")
        return left

    def moment(self) -> float:
        """Return the seconds to wait until the next check of the deadline. Raises as `remaining`."""
        return min(_POLL_SECONDS, self.remaining())

    @contextlib.contextmanager
    def held(self, places: threading.Semaphore) -> Iterator[None]:
        """Hold one of a number of places in the block. Raises as `remaining`."""
        self._take(places)
        try:
            yield
        finally:
            places.release()

    def abandoning(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which blocks and cannot be ended. When the time is up, it is abandoned.

        It runs in a thread of its own until it ends by itself. At most 32 of these threads run at once in this process.
        Raises as `work` and as `remaining`.
        """
        self._take(_BLOCKING)
        future: Future[T] = Future()
        try:
            threading.Thread(target=_run, args=(work, future), name="hermes-web-wait", daemon=True).start()
        except RuntimeError:  # no more threads
            _BLOCKING.release()
            raise
        while not future.done():
            wait([future], timeout=self.moment())
        return future.result()

    def _take(self, places: threading.Semaphore) -> None:
        while not places.acquire(timeout=self.moment()):
            pass


def _run(work: Callable[[], T], future: Future[T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
    finally:
        _BLOCKING.release()
