"""One who waits for an environment of a pool."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
from typing import TYPE_CHECKING

from environments.cancellation import current_start_limit, ended_in_scope
from environments.errors import CallCancelledError, StartStoppedError
from environments.loop import current
from environments.plain_number import plain_number
from environments.starting import is_unwanted, reason_to_leave, stopped_error

if TYPE_CHECKING:
    from environments.pool.keeper import Member

ASK_AGAIN = 0.05
"""Seconds between two looks at what can only be asked whether to stop."""


class Borrower:
    """Waits until it is handed an environment, or an error. All but `has_begun` is the loop thread's.

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
        """Whether it has begun to use that. Its own thread says so."""
        self._backend = backend
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._interrupt = interrupt
        self._error: BaseException | None = None
        self._look = asyncio.Event()

    def hand(self, member: Member) -> None:
        """Hand it an environment."""
        self.member = member
        self._look.set()

    def fail(self, error: BaseException) -> None:
        """Have its wait end with an error, which several may be told."""
        self._error = error
        self._look.set()

    async def wait(self) -> Member:
        """Wait for it.

        Raises:
            StartStoppedError: The time was up, or the `start_limit` of the call.
            CallCancelledError: The interrupt was set, or the scope of the call was cancelled.
            BaseException: The error that it was told.
        """
        asks = self._interrupt is not None or current_start_limit() is not None
        with ended_in_scope(lambda: current().soon(self._look.set)):
            while self.member is None and self._error is None:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._too_late() from self.refusal
                self._check()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(ASK_AGAIN, left or ASK_AGAIN) if asks else left):
                        await self._look.wait()
                self._look.clear()
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
