"""The lease of an environment of a pool: the wait for one, and the environment."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
from dataclasses import dataclass, field

from environments.base import BaseEnvironment
from environments.cancellation import current_start_limit, ended_in_scope
from environments.errors import CallCancelledError, StartStoppedError
from environments.loop import current
from environments.plain_number import plain_number
from environments.starting import is_unwanted, reason_to_leave, stopped_error

POLL_INTERVAL = 0.05
"""Seconds between two looks at an event or a limit that cannot wake the loop."""


@dataclass(eq=False, slots=True)
class Member:
    """An environment of a pool."""

    env: BaseEnvironment | None = None
    """None until it is made."""
    uses: int = 0
    """How many leases it has had."""
    idle_since: float = field(default_factory=time.monotonic)
    """When it was last ready for a lease, on the monotonic clock."""


class Lease:
    """Waits until it is given an environment, or an error. All but `has_begun` is the loop thread's.

    Args:
        backend: The backend's name, for errors.
        timeout: Seconds to wait at the most; None is no limit.
        interrupt: Ends the wait when it is set.
    """

    def __init__(self, backend: str, timeout: float | None, interrupt: threading.Event | None) -> None:
        self.member: Member | None = None
        """The environment that it was given."""
        self.refusal: BaseException | None = None
        """The last refusal of the engine during the wait, for the error of a time-out."""
        self.has_begun = False
        """True once the borrower has the environment. The borrower's thread sets it."""
        self._backend = backend
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._interrupt = interrupt
        self._error: BaseException | None = None
        self._wake = asyncio.Event()

    def grant(self, member: Member) -> None:
        """Give it an environment."""
        self.member = member
        self._wake.set()

    def fail(self, error: BaseException) -> None:
        """End its wait with an error, which several leases may be given."""
        self._error = error
        self._wake.set()

    async def wait(self) -> Member:
        """Wait for the environment.

        Raises:
            StartStoppedError: The time was up, or the `start_limit` of the call.
            CallCancelledError: The interrupt was set, or the scope of the call was cancelled.
            BaseException: The error that it was given.
        """
        polls = self._interrupt is not None or current_start_limit() is not None
        with ended_in_scope(lambda: current().soon(self._wake.set)):
            while self.member is None and self._error is None:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._too_late() from self.refusal
                self._check()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(POLL_INTERVAL, left or POLL_INTERVAL) if polls else left):
                        await self._wake.wait()
                self._wake.clear()
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
    """Return a copy, as each thread that raises an error writes its traceback on it."""
    try:
        return copy.copy(error)
    except Exception:  # one of a backend's own, whose class cannot be called in that way
        return error
