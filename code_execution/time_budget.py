"""The time limit of a script, spent also before the script runs; and interruptions by the caller."""

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
"""Seconds between two checks for an interruption: with an event or scope of the caller, and without."""
_SPECIFIC_ERRORS = (EnvironmentLostError, EnvironmentStartError, UnsupportedError)
"""Errors that mean more than a time-out or an interruption."""


class Interruption:
    """Interruptions of a script: the caller's event, and the caller's `CancelScope`.

    Args:
        event: The caller's event, if any.
    """

    def __init__(self, event: threading.Event | None) -> None:
        self.event = event
        self.scope = current_scope()

    @property
    def poll_interval(self) -> float:
        """Seconds between two checks: fewer if a person may be waiting."""
        return _SHORT_POLL if self.event is not None or self.scope is not None else _LONG_POLL

    def is_set(self) -> bool:
        """Return True once the caller has interrupted the script."""
        return bool((self.event and self.event.is_set()) or (self.scope and self.scope.cancelled))


class OutOfTimeError(Exception):
    """The script's time limit was reached before the script ran."""


class TimeBudget:
    """The time limit of a script, and the step before the script's start that is in progress.

    Args:
        limit: Seconds for the script, all steps included.
        began: Start of that time, on the monotonic clock.
        interruption: Also ends a wait for the target's start.
    """

    def __init__(self, limit: float, began: float, interruption: Interruption) -> None:
        self.deadline = began + limit
        """End of the script's time, on the monotonic clock."""
        self._limit = limit
        self.began = began
        self.interruption = interruption
        self._step = "starting the target"

    @contextlib.contextmanager
    def limiting_starts(self) -> Iterator[None]:
        """Limit the start of a target in the block by the script's time and by interruptions.

        Raises:
            StartStoppedError: The limit was reached or the caller interrupted before the target was up.
        """
        left = max(0.0, self.deadline - time.monotonic())
        with start_limit(left, interrupted=self.interruption.is_set):
            yield

    def begin_step(self, step: str) -> None:
        """Enter a step, named for error messages; an empty text is the script itself.

        Raises:
            OutOfTimeError: The time limit was reached.
            CallCancelledError: The caller has interrupted the script.
        """
        self._check()
        self._step = step

    def wait_for(self, future: Future[T]) -> T:
        """Wait for a future and return its result.

        Raises:
            OutOfTimeError: The time limit was reached.
            CallCancelledError: The caller has interrupted the script.
            Exception: The future's own error.
        """
        while True:
            self._check()
            left = self.deadline - time.monotonic()
            if wait((future,), min(left, self.interruption.poll_interval)).done:
                return future.result()

    def used_up_by(self, step: str) -> OutOfTimeError:
        """Return the error for a script whose time was used up by a step."""
        self._step = step
        return OutOfTimeError()

    def _check(self) -> None:
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError
        if self.interruption.is_set():
            raise CallCancelledError("the script was interrupted by the caller")

    def result_of(self, error: OutOfTimeError | TerminalError) -> ExecutionResult | None:
        """Return a result if an error means only a time-out or an interruption; else None."""
        if self.interruption.is_set() and not _is_specific(error):
            return self.interrupted()
        if isinstance(error, OutOfTimeError) or self._is_timeout(error):
            message = not_run_message(self._limit, self._step)
            return ExecutionResult("timeout", message, 0, time.monotonic() - self.began, None, message)
        return None

    def interrupted(self) -> ExecutionResult:
        """Return the result of an interrupted script with an unknown end."""
        seconds = time.monotonic() - self.began
        return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)

    def _is_timeout(self, error: TerminalError) -> bool:
        if isinstance(error, StartStoppedError):
            return error.timed_out
        return bool(self._step) and time.monotonic() >= self.deadline and not _is_specific(error)


def _is_specific(error: Exception) -> bool:
    return isinstance(error, _SPECIFIC_ERRORS) and not isinstance(error, StartStoppedError)
