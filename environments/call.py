"""The checked arguments of one command."""

from __future__ import annotations

import math
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypedDict, Unpack

from environments.arguments import (
    check_count,
    check_directory,
    check_seconds,
    checked_user,
    checked_variables,
    input_bytes,
)
from environments.cancellation import current_scope
from environments.listener import LiveOutput, OutputCallback, listener

StderrMode = Literal["merge", "separate"]
StdinMode = Literal["open", "none", "consumed"]
Command = str | Sequence[str | os.PathLike[str]]
"""Shell text, or a program and its arguments, which no shell takes apart."""
_NO_ENV: Mapping[str, str] = MappingProxyType({})


class Call(NamedTuple):
    """What `execute`, `execute_oneshot` or `start` was asked for."""

    command: str
    cwd: str | None = None
    timeout: float = math.inf
    """Seconds; infinite for no limit."""
    stdin: bytes = b""
    separate: bool = False
    """Whether stderr is captured apart."""
    env: Mapping[str, str] = _NO_ENV
    """Variables for this command alone."""
    user: str | None = None
    """The user of the target to run as, a name or a number; None is the target's own."""
    session_env: bool = False
    """Whether a command that runs beside the session gets what that has exported."""
    binary: bool = False
    """Whether the output is wanted as bytes, too."""
    max_output_bytes: int | None = None
    """Bytes of output to keep; None is as the settings say."""
    on_output: LiveOutput | None = None
    interrupt: threading.Event | None = None
    """Ends the command when it is set."""
    is_own: bool = False
    """Whether it is a command of the package's own, which leaves nothing behind."""
    words: str = ""
    """The program and its arguments as shell text, if it was asked for by these."""

    @property
    def judged(self) -> str:
        """The shell text that hooks and rules judge: of a program and its arguments these, and not what runs them."""
        return self.words or self.command

    def at(self, cwd: str) -> Call:
        """Return the same for another directory."""
        return self._replace(cwd=cwd)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for it any more: its interrupt is set, or the current thread's scope is cancelled."""
        scope = current_scope()
        return bool((self.interrupt and self.interrupt.is_set()) or (scope and scope.cancelled))

    @property
    def can_be_cancelled(self) -> bool:
        """Whether that may come to be."""
        return self.interrupt is not None or current_scope() is not None


class CallArguments(TypedDict, total=False):
    """What a command may be asked for with, see `BaseEnvironment.execute` and `execute_oneshot`."""

    cwd: str | None
    stdin: str | bytes | None
    stderr: StderrMode
    env: Mapping[str, str] | None
    user: str | int | None
    session_env: bool
    binary: bool
    max_output_bytes: int | None
    on_output: OutputCallback | None
    interrupt: threading.Event | None


def checked_call(command: Command, timeout: float = math.inf, **arguments: Unpack[CallArguments]) -> Call:
    """Check the arguments of a command.

    Args:
        command: Shell text, or a program and its arguments.
        timeout: Seconds; infinite for no limit.
        arguments: All others, see `Call`.

    Raises:
        TypeError: One of them is of a type that it cannot have.
        ValueError: One of them has a value that no backend can take.
    """
    stderr = arguments.get("stderr", "merge")
    if stderr not in ("merge", "separate"):
        raise ValueError(f"stderr is {stderr!r}; allowed: 'merge', 'separate'")
    cwd, env, user = arguments.get("cwd"), arguments.get("env"), arguments.get("user")
    if cwd is not None:
        check_directory(cwd)
    limit, interrupt = arguments.get("max_output_bytes"), arguments.get("interrupt")
    if interrupt is not None and not callable(getattr(interrupt, "is_set", None)):
        raise TypeError(f"interrupt is of type {type(interrupt).__name__}; give a threading.Event")
    return Call(
        command_text(command),
        cwd,
        check_seconds("timeout", timeout),
        input_bytes(arguments.get("stdin")),
        stderr == "separate",
        checked_variables(env) if env else _NO_ENV,
        None if user is None else checked_user(user),
        bool(arguments.get("session_env", False)),
        bool(arguments.get("binary", False)),
        None if limit is None else check_count("max_output_bytes", limit),
        listener(arguments.get("on_output")),
        interrupt,
        words="" if isinstance(command, str) else shlex.join(os.fspath(word) for word in command),
    )


def command_text(command: Command) -> str:
    """Return a command as shell text.

    A program and its arguments are run by `command`, so that no alias, function or reserved word of that name is.

    Raises:
        TypeError: It is neither text nor a sequence of texts.
        ValueError: It holds a NUL character, or is an empty sequence.
    """
    text = command if isinstance(command, str) else _joined(command)
    if "\0" in text:
        raise ValueError(
            "the command holds a NUL character, which no shell can take; write \\0 and have printf make it"
        )
    return text


def _joined(command: object) -> str:
    if isinstance(command, (bytes, bytearray, memoryview)) or not isinstance(command, Sequence):
        raise TypeError(f"command is of type {type(command).__name__}; give text, or a list of a program and arguments")
    words = [os.fspath(word) if isinstance(word, os.PathLike) else word for word in command]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"command: {word!r} is of type {type(word).__name__}; a program and its arguments are text")
    if not words:
        raise ValueError("the command is an empty list; give a program and its arguments")
    return f"\\command -- {shlex.join(words)}"
