"""The time before a script runs, which is its own, and who still waits for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import TypeVar

from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult, not_run_message
from environments.cancellation import current_scope, start_limit
from environments.errors import (
    CallCancelledError,
    EnvironmentLostError,
    EnvironmentStartError,
    StartStoppedError,
    TerminalError,
    UnsupportedError,
)

T = TypeVar("T")
_SHORT_POLL, _LONG_POLL = 0.05, 0.5
"""Seconds between two looks whether anybody still waits: where an event may say so, and elsewhere."""
_SPECIFIC_ERRORS = (EnvironmentLostError, EnvironmentStartError, UnsupportedError)
"""Errors that say more than that time was over, or that nobody waits."""


class Interruption:
    """What may end a script from outside: the caller's event, and the scope that the caller works in.

    Args:
        event: That event, if there is one.
    """

    def __init__(self, event: threading.Event | None) -> None:
        self.event = event
        self.scope = current_scope()

    @property
    def pause(self) -> float:
        """Seconds between two looks whether it has come: fewer where a person may be waiting for that."""
        return _SHORT_POLL if self.event is not None or self.scope is not None else _LONG_POLL

    def is_set(self) -> bool:
        """Return whether nobody waits any more."""
        return bool((self.event and self.event.is_set()) or (self.scope and self.scope.cancelled))


class OutOfTimeError(Exception):
    """The script's time was over before it ran."""


class TimeBudget:
    """The time before a script runs, which is its own: how much is left, and what is said if it was too short.

    Args:
        limit: Seconds that the script has, all of this included.
        began: When they began, on the monotonic clock.
        interruption: Ends the waiting for a target's start.
    """

    def __init__(self, limit: float, began: float, interruption: Interruption) -> None:
        self.deadline = began + limit
        """When the script's time is over, on the monotonic clock."""
        self._limit = limit
        self.began = began
        self.interruption = interruption
        self._step = "starting the target"

    @contextlib.contextmanager
    def limiting_starts(self) -> Iterator[None]:
        """Let the start of a target in the block take no more than the script's time, and no longer than anybody waits.

        Raises:
            StartStoppedError: It was over, or nobody waited any more, before the target was up.
        """
        left = max(0.0, self.deadline - time.monotonic())
        with start_limit(left, interrupted=self.interruption.is_set):
            yield

    def begin_step(self, step: str) -> None:
        """Note what is done from here on; an empty text stands for the script itself.

        Raises:
            OutOfTimeError: The script's time is over.
            CallCancelledError: Nobody waits any more.
        """
        self._check()
        self._step = step

    def wait_for(self, future: Future[T]) -> T:
        """Wait for something, and return what comes of it.

        Raises:
            OutOfTimeError: The script's time is over.
            CallCancelledError: Nobody waits any more.
            Exception: What came of it.
        """
        while True:
            self._check()
            left = self.deadline - time.monotonic()
            if wait((future,), min(left, self.interruption.pause)).done:
                return future.result()

    def used_up_by(self, step: str) -> OutOfTimeError:
        """Return the error for a script that did not begin, as something took all of its time."""
        self._step = step
        return OutOfTimeError()

    def _check(self) -> None:
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError
        if self.interruption.is_set():
            raise CallCancelledError("nobody waits for the script any more")

    def result_of(self, error: OutOfTimeError | TerminalError) -> ExecutionResult | None:
        """Return the result if an error only means that time is over or that nobody waits; None if it says more."""
        if self.interruption.is_set() and not _is_specific(error):
            return self.interrupted()
        if isinstance(error, OutOfTimeError) or self._is_timeout(error):
            message = not_run_message(self._limit, self._step)
            return ExecutionResult("timeout", message, 0, time.monotonic() - self.began, None, message)
        return None

    def interrupted(self) -> ExecutionResult:
        """Return the result of a script of whose end nothing is known, as nobody waits for it any more."""
        seconds = time.monotonic() - self.began
        return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)

    def _is_timeout(self, error: TerminalError) -> bool:
        if isinstance(error, StartStoppedError):
            return error.timed_out
        return bool(self._step) and time.monotonic() >= self.deadline and not _is_specific(error)


def _is_specific(error: Exception) -> bool:
    return isinstance(error, _SPECIFIC_ERRORS) and not isinstance(error, StartStoppedError)
