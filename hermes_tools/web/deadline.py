"""The time that a call may take, and leaving off earlier when nobody waits for it any more."""

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

LOOK_UP_SECONDS = 0.05
"""How long is waited at a time, for anything."""
_BLOCKING = threading.BoundedSemaphore(32)
"""What may be waited for at once that cannot be ended; see `Deadline.abandoning`."""

T = TypeVar("T")


class OutOfTimeError(Exception):
    """The time is up."""


class Deadline:
    """When a call has to end: after its seconds, with the scope it was made in, or when it is told to stop.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._scope = current_scope()
        self._stopped = False

    def stop(self) -> None:
        """Have everything that works under it leave off."""
        self._stopped = True

    def remaining(self) -> float:
        """Return the seconds that are left, more than 0.

        Raises:
            OutOfTimeError: None are.
            ToolInterruptedError: Nobody waits any more.
        """
        if self._stopped or (self._scope and self._scope.cancelled):
            raise ToolInterruptedError("it was interrupted")
        left = self._end - time.monotonic()
        if left <= 0:
            raise OutOfTimeError(f"timed out after {plain_number(self._seconds)} s")
        return left

    def moment(self) -> float:
        """Return the seconds to wait until the next look whether it is over. Raises as `remaining`."""
        return min(LOOK_UP_SECONDS, self.remaining())

    @contextlib.contextmanager
    def held(self, places: threading.Semaphore) -> Iterator[None]:
        """Hold one of a number of places in the block. Raises as `remaining`."""
        self._take(places)
        try:
            yield
        finally:
            places.release()

    def abandoning(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises; it is left alone when the time is up.

        It runs in a thread of its own, for work that blocks and cannot be told to end, but ends by itself. At most 32
        of those run at once in this process. Raises as `remaining`, too.
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
