"""The lease of a pooled environment: waiting, granting, time-out."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
from dataclasses import dataclass, field

from environments.base import BaseEnvironment
from environments.cancellation import current_start_limit, on_scope_cancel
from environments.errors import CallCancelledError, StartStoppedError
from environments.loop import current
from environments.plain_number import plain_number
from environments.starting import is_abandoned, stop_reason, stopped_error

POLL_INTERVAL = 0.05
"""Seconds between checks of events and limits that cannot wake the loop."""


@dataclass(eq=False, slots=True)
class PooledEnvironment:
    """An environment of a pool."""

    env: BaseEnvironment | None = None
    """The environment; None until created."""
    uses: int = 0
    """Number of leases so far."""
    idle_since: float = field(default_factory=time.monotonic)
    """Time of the last return to the pool, on the monotonic clock."""


class Lease:
    """A request for an environment, granted or failed by the pool. All but `has_begun` belongs to the loop thread.

    Args:
        backend: Name of the backend, for errors.
        timeout: Maximum seconds to wait; None is no limit.
        interrupt: Event that ends the wait.
    """

    def __init__(self, backend: str, timeout: float | None, interrupt: threading.Event | None) -> None:
        self.member: PooledEnvironment | None = None
        """The granted environment."""
        self.refusal: BaseException | None = None
        """The engine's last refusal during the wait, for the error after a time-out."""
        self.has_begun = False
        """True once the borrower uses the environment. Set by the borrower's thread."""
        self._backend = backend
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._interrupt = interrupt
        self._error: BaseException | None = None
        self._wake = asyncio.Event()

    def grant(self, member: PooledEnvironment) -> None:
        """Grant the lease an environment."""
        self.member = member
        self._wake.set()

    def fail(self, error: BaseException) -> None:
        """Fail the lease. Several leases may share the error."""
        self._error = error
        self._wake.set()

    async def wait(self) -> PooledEnvironment:
        """Wait for the environment.

        Raises:
            StartStoppedError: The time-out, or the `start_limit` of the call, is over.
            CallCancelledError: The interrupt was set, or the scope of the call was cancelled.
            BaseException: The error of a failed lease.
        """
        polls = self._interrupt is not None or current_start_limit() is not None
        with on_scope_cancel(lambda: current().soon(self._wake.set)):
            while self.member is None and self._error is None:
                left = None if self._deadline is None else self._deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise self._timeout_error() from self.refusal
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
        if is_abandoned() or (self._interrupt and self._interrupt.is_set()):
            raise CallCancelledError("the call was cancelled while waiting for an environment of the pool")
        if reason := stop_reason():
            raise stopped_error(self._backend, *reason)

    def _timeout_error(self) -> StartStoppedError:
        seconds = plain_number(self._timeout or 0)
        refused = f"; the last start was refused: {self.refusal}" if self.refusal else ""
        return StartStoppedError(
            f"backend {self._backend!r}: no environment of the pool was free for {seconds} s{refused}; wait longer, or "
            "allow it more at once (max)",
            timed_out=True,
        )


def _copied(error: BaseException) -> BaseException:
    """Return a copy of an error, so that each raising thread writes its own traceback."""
    try:
        return copy.copy(error)
    except Exception:  # an external error class with another constructor
        return error
