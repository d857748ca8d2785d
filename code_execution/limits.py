"""How a script is to be run, and for how long and how much of what it may do."""

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
"""Seconds a script has between TERM and KILL."""
ENDING_LIMIT = SCRIPT_GRACE + 3.5
"""Seconds for all processes of a script to be ended, its grace included, and for its transport to be closed."""
REMOVAL_LIMIT = 1.5
"""Seconds for its directory to be removed, if the ending left no more."""
NOT_CALLABLE = ("execute_code", "delegate_task", "delegate")
"""Tools that start another agent or script; a script must not get hold of them, whoever passes them."""


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
        settings: CodeExecutionSettings,
        timeout: float | None,
        max_tool_calls: int | None,
        mode: Mode | None,
        transport: TransportName,
        tool_errors: ToolErrors | None,
        session_env: bool,
    ) -> Limits:
        """Return the limits of arguments, and of the settings for what is None.

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


def checked_environment(env: object, awaited: str) -> BaseEnvironment:
    """Return an environment.

    Args:
        env: What is to be one.
        awaited: What takes one that is awaited, in `hermes_env.aio`.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(env, BaseEnvironment):
        raise TypeError(
            f"env is of type {type(env).__name__}; give an environment, as create_environment returns it (one that is "
            f"awaited goes with hermes_env.aio.{awaited})"
        )
    return env


def checked_tools(tools: Tools) -> Tools:
    """Return a copy of the tools of a script.

    Raises:
        ValueError: One of them is not for a script.
    """
    if forbidden := sorted(set(tools) & set(NOT_CALLABLE)):
        raise ValueError(f"{', '.join(forbidden)} can't be called from a script; leave it out of tools")
    return dict(tools)
