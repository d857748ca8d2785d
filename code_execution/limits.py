"""What a script may do, for how long, and who still waits for it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from code_execution.result import INTERRUPTED_MESSAGE, ExecutionResult, not_run_message
from code_execution.settings import CodeExecutionSettings, Mode, load_code_execution_settings
from environments.cancellation import current_scope, start_limit
from environments.errors import (
    CallCancelledError,
    EnvironmentLostError,
    EnvironmentStartError,
    StartStoppedError,
    TerminalError,
    UnsupportedError,
)
from rpc import ToolErrors

T = TypeVar("T")
TransportName = Literal["auto", "socket", "relay", "file"]
Tools = Mapping[str, Callable[..., object]]

SCRIPT_GRACE = 5.0
"""Seconds a script has between TERM and KILL."""
ENDING_LIMIT = SCRIPT_GRACE + 3.5
"""Seconds for all processes of a script to be ended, its grace included, and for its transport to be closed."""
REMOVAL_LIMIT = 1.5
"""Seconds for its directory to be removed, if the ending left no more."""
SHORTEST_COMMAND, LONGEST_COMMAND = 1.0, 60.0
"""Seconds that each command which comes before a script has at least, and at most."""
_OFTEN, _SELDOM = 0.05, 0.5
"""Seconds between two looks whether anybody still waits: where an event may say so, and elsewhere."""
NOT_CALLABLE = ("execute_code", "delegate_task", "delegate")
"""Tools that start another agent or script; a script must not get hold of them, whoever passes them."""
_SAYS_MORE = (EnvironmentLostError, EnvironmentStartError, UnsupportedError)
"""Errors that say more than that time was over, or that nobody waits."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How a script is to be run, and how long and how much of what it may do."""

    settings: CodeExecutionSettings
    timeout: float
    """Seconds."""
    max_tool_calls: int
    mode: Mode
    transport: TransportName
    tool_errors: ToolErrors
    session_env: bool = False
    """Whether the script sees what the session exports."""

    @classmethod
    def checked(
        cls,
        timeout: float | None,
        max_tool_calls: int | None,
        mode: Mode | None,
        transport: TransportName,
        tool_errors: ToolErrors | None,
        session_env: bool,
    ) -> Limits:
        """Return the limits of arguments, and of the settings for what is None.

        Raises:
            SettingsError: The settings are not in order.
            ValueError: An argument has a value that is not allowed.
        """
        settings = load_code_execution_settings()
        limits = cls(
            settings,
            settings.timeout if timeout is None else timeout,
            settings.max_tool_calls if max_tool_calls is None else max_tool_calls,
            settings.mode if mode is None else mode,
            transport,
            settings.tool_errors if tool_errors is None else tool_errors,
            bool(session_env),
        )
        if not limits.timeout > 0:
            raise ValueError(f"timeout is {limits.timeout} s; give a positive number")
        if limits.max_tool_calls < 0:
            raise ValueError(f"max_tool_calls is {limits.max_tool_calls}; give 0 or more")
        for name, value, allowed in (
            ("mode", limits.mode, get_args(Mode)),
            ("transport", limits.transport, get_args(TransportName)),
            ("tool_errors", limits.tool_errors, get_args(ToolErrors)),
        ):
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
        return limits


def checked_code(code: object) -> str:
    """Return a script's source, which is text.

    Raises:
        TypeError: It is not.
        ValueError: It holds what is no text.
    """
    if not isinstance(code, str):
        raise TypeError(f"code is of type {type(code).__name__}; give the script's source as text")
    try:
        code.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"code holds a lone surrogate at character {error.start}, which is not text") from None
    return code


def checked_tools(tools: Tools) -> Tools:
    """Return a copy of the tools of a script.

    Raises:
        ValueError: One of them is not for a script.
    """
    if forbidden := sorted(set(tools) & set(NOT_CALLABLE)):
        raise ValueError(f"{', '.join(forbidden)} can't be called from a script; leave it out of tools")
    return dict(tools)


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
        return _OFTEN if self.event is not None or self.scope is not None else _SELDOM

    def has_come(self) -> bool:
        """Return whether nobody waits any more."""
        return bool((self.event and self.event.is_set()) or (self.scope and self.scope.cancelled))


class OutOfTimeError(Exception):
    """The script's time was over before it ran."""


class Preparation:
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
        self._interruption = interruption
        self._doing = "starting the target"

    @contextlib.contextmanager
    def bounding_starts(self) -> Iterator[None]:
        """Let the start of a target in the block take no more than the script's time, and no longer than anybody waits.

        Raises:
            StartStoppedError: It was over, or nobody waited any more, before the target was up.
        """
        left = max(0.0, self.deadline - time.monotonic())
        with start_limit(left, interrupted=self._interruption.has_come):
            yield

    def now(self, doing: str) -> None:
        """Note what is done from here on; an empty text stands for the script itself.

        Raises:
            OutOfTimeError: The script's time is over.
            CallCancelledError: Nobody waits any more.
        """
        self._check()
        self._doing = doing

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
            if wait((future,), min(left, self._interruption.pause)).done:
                return future.result()

    def taken_by(self, doing: str) -> OutOfTimeError:
        """Return the error for a script that did not begin, as something took all of its time."""
        self._doing = doing
        return OutOfTimeError()

    def _check(self) -> None:
        if time.monotonic() >= self.deadline:
            raise OutOfTimeError
        if self._interruption.has_come():
            raise CallCancelledError("nobody waits for the script any more")

    def result_of(self, error: OutOfTimeError | TerminalError) -> ExecutionResult | None:
        """Return the result if an error only means that time is over or that nobody waits; None if it says more."""
        if self._interruption.has_come() and not _says_more(error):
            return self.interrupted()
        if isinstance(error, OutOfTimeError) or self._only_says_so(error):
            message = not_run_message(self._limit, self._doing)
            return ExecutionResult("timeout", message, 0, time.monotonic() - self.began, None, message)
        return None

    def interrupted(self) -> ExecutionResult:
        """Return the result of a script of whose end nothing is known, as nobody waits for it any more."""
        seconds = time.monotonic() - self.began
        return ExecutionResult("interrupted", INTERRUPTED_MESSAGE, 0, seconds, None, INTERRUPTED_MESSAGE)

    def _only_says_so(self, error: TerminalError) -> bool:
        if isinstance(error, StartStoppedError):
            return error.timed_out
        return bool(self._doing) and time.monotonic() >= self.deadline and not _says_more(error)


def _says_more(error: Exception) -> bool:
    return isinstance(error, _SAYS_MORE) and not isinstance(error, StartStoppedError)
