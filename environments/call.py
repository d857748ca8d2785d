"""The checked arguments of one command."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from environments.variables import is_name

StderrMode = Literal["merge", "separate"]
StdinMode = Literal["open", "none", "consumed"]
OutputCallback = Callable[[str], object]
_NO_ENV: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """What `execute`, `execute_oneshot` or `start` was asked for."""

    command: str
    cwd: str | None = None
    timeout: float = math.inf
    """Seconds; infinite for no limit."""
    stdin: bytes = b""
    separate: bool = False
    """Whether stderr is captured apart."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for this command alone."""
    on_output: OutputCallback | None = None
    is_own: bool = False
    """Whether it is a command of the package's own, which leaves nothing behind."""

    def at(self, cwd: str) -> Call:
        """Return the same for another directory."""
        return replace(self, cwd=cwd)


def checked_call(
    command: str,
    *,
    cwd: str | None = None,
    timeout: float = math.inf,
    stdin: str | bytes | None = None,
    stderr: str = "merge",
    env: Mapping[str, str] | None = None,
    on_output: OutputCallback | None = None,
) -> Call:
    """Check the arguments of a command.

    Raises:
        TypeError: One of them is of a type that it cannot have.
        ValueError: One of them has a value that no backend can take.
    """
    check_text("command", command)
    if "\0" in command:
        raise ValueError(
            "the command holds a NUL character, which no shell can take; write \\0 and have printf make it"
        )
    if cwd is not None:
        check_directory(cwd)
    if stderr not in ("merge", "separate"):
        raise ValueError(f"stderr is {stderr!r}; allowed: 'merge', 'separate'")
    if on_output is not None and not callable(on_output):
        raise TypeError(f"on_output is of type {type(on_output).__name__}; give a function that takes text")
    return Call(
        command,
        cwd,
        check_seconds("timeout", timeout),
        _input(stdin),
        stderr == "separate",
        _checked_variables(env) if env else _NO_ENV,
        on_output,
    )


def check_text(name: str, value: object) -> None:
    """Raise TypeError unless an argument is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is of type {type(value).__name__}; give text")


def check_directory(cwd: object) -> None:
    """Raise unless an argument can be a directory of the target."""
    check_text("cwd", cwd)
    if not cwd or "\0" in str(cwd):
        raise ValueError(f"cwd is {cwd!r}; give a directory of the target, or None for the session's")


def checked_path(path: object) -> str:
    """Return the path of a file of the target.

    Raises:
        TypeError: It is no path.
        ValueError: It is empty, or holds a NUL character.
    """
    if not isinstance(path, (str, PurePosixPath)):
        raise TypeError(f"path is of type {type(path).__name__}; give text or a PurePosixPath")
    text = str(path)
    if not text or "\0" in text:
        raise ValueError(f"path is {text!r}; give that of a file in the target")
    return text


def checked_data(data: object) -> bytes:
    """Return the contents of a file. Raises TypeError unless they are bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data is of type {type(data).__name__}; give bytes")
    return bytes(data)


def check_seconds(name: str, value: object) -> float:
    """Return a time as a number.

    Raises:
        TypeError: It is none.
        ValueError: It is not above 0.
    """
    if isinstance(value, bool) or not isinstance(value, (float, int, numbers.Real)):
        raise TypeError(f"{name} is of type {type(value).__name__}; give seconds as a number")
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"{name} is {value} s; give a positive number, or math.inf for no limit")
    return seconds


def _input(stdin: object) -> bytes:
    if stdin is None:
        return b""
    if isinstance(stdin, str):
        return stdin.encode("utf-8", "surrogateescape")
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return bytes(stdin)
    raise TypeError(f"stdin is of type {type(stdin).__name__}; give text or bytes")


def _checked_variables(env: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(env, Mapping):
        raise TypeError(f"env is of type {type(env).__name__}; give a mapping of names to values")
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env: {name!r} has a value of type {type(value).__name__}; names and values are text")
        if not is_name(name):
            raise ValueError(f"env: {name!r} is not the name of a variable")
        if "\0" in value:
            raise ValueError(f"env: the value of {name} holds a NUL character, which no variable can")
    return dict(env)
