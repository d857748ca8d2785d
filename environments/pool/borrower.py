"""One who waits for an environment of a pool."""

from __future__ import annotations

import copy
import threading
import time
from typing import TYPE_CHECKING

from environments.cancellation import current_start_limit, ended_in_scope
from environments.errors import CallCancelledError, StartStoppedError
from environments.plain_number import plain_number
from environments.starting import is_unwanted, reason_to_leave, stopped_error

if TYPE_CHECKING:
    from environments.pool.member import Member

ASK_AGAIN = 0.05
"""Seconds between two looks at what can only be asked whether to stop."""
LOOK_AGAIN = 0.5
"""Seconds that a thread waits at a time: a control-C just before a wait begins is noticed only behind it."""


class Borrower:
    """Waits until somebody hands it an environment, or an error.

    Args:
        backend: The backend's name, for errors.
        timeout: Seconds that it waits at the most; None is for as long as it takes.
        interrupt: Ends the wait when it is set.
    """

    def __init__(self, backend: str, timeout: float | None, interrupt: threading.Event | None) -> None:
        self.member: Member | None = None
        """What it was handed."""
        self.refusal: BaseException | None = None
        """Why the engine refused a start while it waited, if it did: it is told where the time is up."""
        self.has_begun = False
        """Whether it has begun to use that."""
        self._backend = backend
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._interrupt = interrupt
        self._error: BaseException | None = None
        self._look = threading.Event()

    def hand(self, member: Member) -> None:
        """Hand it an environment."""
        self.member = member
        self._look.set()

    def fail(self, error: BaseException) -> None:
        """Have its wait end with an error, which several may be told."""
        self._error = error
        self._look.set()

    @property
    def is_served(self) -> bool:
        """Whether it has an answer."""
        return self.member is not None or self._error is not None

    def wait(self) -> Member:
        """Wait for it.

        Raises:
            StartStoppedError: The time was up, or the current thread's `start_limit`.
            CallCancelledError: The interrupt was set, or the scope of the current thread was cancelled.
            BaseException: The error that it was told.
        """
        asks = self._interrupt is not None or current_start_limit() is not None
        with ended_in_scope(self._look.set):
            while True:
                self._look.clear()
                if self.is_served:
                    break
                left = LOOK_AGAIN if self._deadline is None else self._deadline - time.monotonic()
                if left <= 0:
                    raise self._too_late() from self.refusal
                self._check()
                self._look.wait(min(left, ASK_AGAIN if asks else LOOK_AGAIN))
        if self.member is None:
            assert self._error
            raise _copied(self._error) from self._error
        return self.member

    def _check(self) -> None:
        if is_unwanted() or (self._interrupt and self._interrupt.is_set()):
            raise CallCancelledError("the call was cancelled while it waited for an environment of a pool")
        if reason := reason_to_leave():
            raise stopped_error(self._backend, *reason)

    def _too_late(self) -> StartStoppedError:
        seconds = plain_number(self._timeout or 0)
        refused = f"; the last start was refused: {self.refusal}" if self.refusal else ""
        return StartStoppedError(
            f"backend {self._backend!r}: no environment of the pool was free for {seconds} s{refused}; wait longer, or "
            "allow it more at once (max)",
            timed_out=True,
        )


def _copied(error: BaseException) -> BaseException:
    """Return an error of one's own, as each thread that raises one writes its traceback on it."""
    try:
        return copy.copy(error)
    except Exception:  # one of a backend's own, whose class cannot be called in that way
        return error
