"""Limits of a script and checks of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from code_execution.settings import CodeExecutionSettings, Mode
from environments.base import BaseEnvironment
from rpc import ToolErrors

TransportName = Literal["auto", "socket", "relay", "file"]
Tools = Mapping[str, Callable[..., object]]

SCRIPT_GRACE = 5.0
"""Seconds between TERM and KILL for a script."""
ENDING_LIMIT = SCRIPT_GRACE + 3.5
"""Seconds to end all processes of a script, grace included, and to close the transport."""
REMOVAL_LIMIT = 1.5
"""Seconds to remove the script's directory, if ending left no more."""
NOT_CALLABLE = ("execute_code", "delegate_task", "delegate")
"""Tools that start another agent or script; never callable from a script."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Mode, time-out and other limits of a script."""

    settings: CodeExecutionSettings
    timeout: float
    """Seconds."""
    max_tool_calls: int
    mode: Mode
    transport: TransportName
    tool_errors: ToolErrors
    session_env: bool = False
    """True to pass the session's exported variables."""

    @classmethod
    def checked(
        cls,
        settings: CodeExecutionSettings,
        timeout: float | None,
        max_tool_calls: int | None,
        mode: Mode | None,
        transport: TransportName,
        tool_errors: ToolErrors | None,
        session_env: bool,
    ) -> Limits:
        """Return limits from the arguments; None stands for the setting.

        Raises:
            ValueError: An argument has a value that is not allowed.
        """
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
    """Return a script's source if valid.

    Raises:
        TypeError: The source is not a str.
        ValueError: The source contains a lone surrogate.
    """
    if not isinstance(code, str):
        raise TypeError(f"code is of type {type(code).__name__}; give the script's source as text")
    try:
        code.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"code holds a lone surrogate at character {error.start}, which is not text") from None
    return code


def checked_environment(env: object, awaited: str) -> BaseEnvironment:
    """Return the argument if it is an environment.

    Args:
        env: The argument.
        awaited: Name of the function in `hermes_env.aio` for async environments.

    Raises:
        TypeError: The argument is not an environment.
    """
    if not isinstance(env, BaseEnvironment):
        raise TypeError(
            f"env is of type {type(env).__name__}; give an environment, as create_environment returns it (one that is "
            f"awaited goes with hermes_env.aio.{awaited})"
        )
    return env


def checked_tools(tools: Tools) -> Tools:
    """Return a copy of a script's tools.

    Raises:
        ValueError: A tool must not be called from scripts.
    """
    if forbidden := sorted(set(tools) & set(NOT_CALLABLE)):
        raise ValueError(f"{', '.join(forbidden)} can't be called from a script; leave it out of tools")
    return dict(tools)
