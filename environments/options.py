"""Validation of the options of commands and the arguments of file methods."""

from __future__ import annotations

import math
import os
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, SupportsFloat, TypedDict, TypeGuard, Unpack

from environments.cancellation import current_scope
from environments.output import LiveOutput, OutputCallback, OutputSink, full_callback
from environments.variables import is_name


def checked_user(user: object) -> str:
    """Validate a user of the target, given by name or number.

    Raises:
        TypeError: The value is neither text nor a number.
        ValueError: No user can have this name.
    """
    if isinstance(user, bool) or not isinstance(user, (str, int)):
        raise TypeError(f"user is of type {type(user).__name__}; give a name or a number")
    text = str(user)
    if not text or text.startswith("-") or any(sign in text for sign in "\0\n:/ "):
        raise ValueError(f"user is {user!r}; give the name or the number of a user of the target")
    return text


def check_count(name: str, value: object) -> int:
    """Validate a count.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value is below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a whole number")
    if value < 1:
        raise ValueError(f"{name} is {value}; give a number from 1 on")
    return value


def check_text(name: str, value: object) -> None:
    """Raise TypeError unless the value is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is of type {type(value).__name__}; give text")


def check_directory(cwd: object) -> None:
    """Raise TypeError or ValueError unless the value can be a directory of the target."""
    check_text("cwd", cwd)
    if not cwd or "\0" in str(cwd):
        raise ValueError(f"cwd is {cwd!r}; give a directory of the target, or None for the session's")


def checked_path(path: object) -> str:
    """Validate the path of a file in the target.

    Raises:
        TypeError: The value is not a path.
        ValueError: The path is empty or holds a NUL character.
    """
    if not isinstance(path, str) and not _is_path(path):
        raise TypeError(f"path is of type {type(path).__name__}; give text or a PurePosixPath")
    text = str(path)
    if not text or "\0" in text:
        raise ValueError(f"path is {text!r}; give the path of a file in the target")
    return text


def _is_path(path: object) -> bool:
    from pathlib import PurePosixPath  # slow to import, and not needed by commands

    return isinstance(path, PurePosixPath)


def means_directory(path: str) -> bool:
    """Return True if the path can only name a directory."""
    return path.rpartition("/")[2] in ("", ".", "..")


def checked_removable(path: object) -> str:
    """Validate a path of the target for removal.

    Raises:
        TypeError: The value is not a path.
        ValueError: The path is empty, holds a NUL character, is the root directory, or ends in `.` or `..`.
    """
    text = checked_path(path)
    if means_directory(text.rstrip("/")):
        raise ValueError(f"path is {text!r}, which is not removed; give the path of something in a directory")
    return text


def checked_limit(limit: object) -> int | None:
    """Validate the maximum number of bytes to read; None is the whole file.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value is below 0.
    """
    if limit is None:
        return None
    return 0 if limit == 0 and limit is not False else check_count("limit", limit)


def checked_mode(mode: object) -> int | None:
    """Validate permission bits; None is the default.

    Raises:
        TypeError: The value is not a whole number.
        ValueError: The value holds other bits.
    """
    if mode is None:
        return None
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(f"mode is of type {type(mode).__name__}; give permission bits such as 0o755")
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"mode is {mode}; give permission bits such as 0o755")
    return mode


def checked_data(data: object) -> bytes:
    """Validate the contents of a file. Raises TypeError unless the value is bytes-like."""
    if isinstance(data, str):
        raise TypeError("data is of type str; give bytes, or write text with write_text")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data is of type {type(data).__name__}; give bytes")
    return bytes(data)


def _is_real(value: object) -> TypeGuard[SupportsFloat]:
    if isinstance(value, (float, int)):
        return True
    import numbers  # for fractions and the like

    return isinstance(value, numbers.Real)


def check_seconds(name: str, value: object) -> float:
    """Validate a duration in seconds.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is not above 0.
    """
    if isinstance(value, bool) or not _is_real(value):
        raise TypeError(f"{name} is of type {type(value).__name__}; give seconds as a number")
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"{name} is {value} s; give a positive number, or math.inf for no limit")
    return seconds


def check_timeout(seconds: object) -> float:
    """Validate a time-out in seconds, which may be 0.

    Raises:
        TypeError: The value is not a number.
        ValueError: The value is below 0.
    """
    return 0.0 if seconds == 0 and not isinstance(seconds, bool) else check_seconds("timeout", seconds)


def input_bytes(stdin: object) -> bytes:
    """Return the input of a command as bytes. Raises TypeError unless the value is text, bytes or None."""
    if stdin is None:
        return b""
    if isinstance(stdin, str):
        return stdin.encode("utf-8", "surrogateescape")
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return bytes(stdin)
    raise TypeError(f"stdin is of type {type(stdin).__name__}; give text or bytes")


def checked_variables(env: object) -> Mapping[str, str]:
    """Validate the environment variables of a command.

    Raises:
        TypeError: The value is not a mapping of text to text.
        ValueError: A name or a value is impossible for a variable.
    """
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


StderrMode = Literal["merge", "separate"]
StdinMode = Literal["open", "none", "consumed"]
CommandText = str | Sequence[str | os.PathLike[str]]
"""Shell text, or a program and its arguments, passed without shell expansion."""
_NO_ENV: Mapping[str, str] = MappingProxyType({})


class SharedOptions(TypedDict, total=False):
    """Options of every command: in the session, beside the session and in the background."""

    cwd: str | None
    """Working directory of this command; None uses the session's. A relative path starts there; `~` is the target
    user's home. The command does not run if the directory cannot be entered. The session's directory stays
    unchanged."""
    env: Mapping[str, str] | None
    """Environment variables of this command."""
    user: str | int | None
    """User of the target that runs the command, by name or number. Refused by `execute`: the session has its own
    user."""
    session_env: bool
    """True to give a command beside the session the session's exports. Commands in a session always have them."""


class StreamOptions(SharedOptions, total=False):
    """Options of a command whose output is iterated, by `AsyncEnvironment.stream`."""

    timeout: float | None
    """Seconds until the command's whole process tree is ended; None uses `settings.timeout`, `math.inf` sets no
    limit. The target's start does not count, see `cancellation.start_limit`."""
    stdin: str | bytes | None
    """Standard input of the command; without input, the command reads end of file."""
    stderr: StderrMode
    """`"merge"` to merge stderr into the output in the order written, or `"separate"`."""
    max_output_bytes: int | None
    """Maximum bytes of output to return; None uses `settings.max_output_bytes`."""
    interrupt: threading.Event | None
    """Event that interrupts the command when set, as `interrupt()` does."""


class CommandOptions(StreamOptions, total=False):
    """Options of a command that the caller waits for, in `execute`, `execute_oneshot` and `session.execute`."""

    binary: bool
    """True to add the output as bytes: in `output_bytes` of the result, and as the argument of `on_output`."""
    on_output: OutputCallback | None
    """Callback for each piece of output as it arrives, in the caller's thread. A function with a second required
    argument, or an argument named `channel`, also receives `"stdout"` or `"stderr"`. An exception of the callback
    ends the command and is raised. The callback may not call `execute` of the same session."""


class StartOptions(SharedOptions, total=False):
    """Options of a background command, see `BaseEnvironment.start`."""

    pty: bool
    """True to run the command on a terminal."""
    rows: int
    """Height of the terminal in lines; 24 by default."""
    columns: int
    """Width of the terminal in characters; 80 by default."""
    stdin: StdinMode
    """`"open"`, the default, for input written through the handle; `"none"` for end of file; `"consumed"` for open
    input that the command reads completely. The last two let other commands reuse the shell, which saves time on a
    distant target."""
    sink: OutputSink | None
    """Receives the output, in a thread of its own, in place of the handle's `read`."""
    grace: float
    """Seconds between TERM and KILL when the process is killed; 1 by default."""


class CheckedCommand(NamedTuple):
    """A command with validated options."""

    text: str
    cwd: str | None = None
    timeout: float = math.inf
    """Seconds; `math.inf` for no limit."""
    stdin: bytes = b""
    separate: bool = False
    """True to capture stderr separately."""
    env: Mapping[str, str] = _NO_ENV
    """Environment variables of this command."""
    user: str | None = None
    """User of the target that runs the command, a name or a number; None is the target's default user."""
    session_env: bool = False
    """True to give a command beside the session the session's exports."""
    binary: bool = False
    """True to return the output as bytes too."""
    max_output_bytes: int | None = None
    """Maximum bytes of output to return; None uses the settings."""
    on_output: LiveOutput | None = None
    interrupt: threading.Event | None = None
    """Event that ends the command when set."""
    is_internal: bool = False
    """True for a command of this package, which leaves no process behind."""
    functions: tuple[str, ...] = ()
    """Definitions that the shell receives once, see `shell.dialect.base.ShellRequest`."""
    words: str = ""
    """The program and its arguments as shell text, for a command given as a list."""

    @property
    def judged(self) -> str:
        """The shell text for hooks and rules: of a list, the program and its arguments without the `command` prefix."""
        return self.words or self.text

    @property
    def is_cancelled(self) -> bool:
        """True once no caller waits for the result: the interrupt is set, or the thread's scope is cancelled."""
        scope = current_scope()
        return bool((self.interrupt and self.interrupt.is_set()) or (scope and scope.cancelled))

    @property
    def can_be_cancelled(self) -> bool:
        """True if the command has an interrupt or a scope."""
        return self.interrupt is not None or current_scope() is not None


def check_names(options: Mapping[str, object], known: Iterable[str], what: str) -> None:
    """Raise TypeError if an option has an unknown name."""
    if unknown := options.keys() - known:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; {what} has {', '.join(known)}")


def checked(command: CommandText, limit: float = math.inf, **options: Unpack[CommandOptions]) -> CheckedCommand:
    """Validate a command and its options.

    Args:
        command: Shell text, or a program and its arguments.
        limit: Seconds for a command without the option `timeout`.
        options: See `CommandOptions`.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
    """
    check_names(options, CommandOptions.__annotations__, "a command")
    stderr = options.get("stderr", "merge")
    if stderr not in ("merge", "separate"):
        raise ValueError(f"stderr is {stderr!r}; allowed: 'merge', 'separate'")
    cwd, env, user = options.get("cwd"), options.get("env"), options.get("user")
    if cwd is not None:
        check_directory(cwd)
    kept, interrupt, timeout = options.get("max_output_bytes"), options.get("interrupt"), options.get("timeout")
    if interrupt is not None and not callable(getattr(interrupt, "is_set", None)):
        raise TypeError(f"interrupt is of type {type(interrupt).__name__}; give a threading.Event")
    return CheckedCommand(
        command_text(command),
        cwd,
        check_seconds("timeout", limit if timeout is None else timeout),
        input_bytes(options.get("stdin")),
        stderr == "separate",
        checked_variables(env) if env else _NO_ENV,
        None if user is None else checked_user(user),
        bool(options.get("session_env", False)),
        bool(options.get("binary", False)),
        None if kept is None else check_count("max_output_bytes", kept),
        full_callback(options.get("on_output")),
        interrupt,
        words="" if isinstance(command, str) else shlex.join(os.fspath(word) for word in command),
    )


def command_text(command: CommandText) -> str:
    """Return a command as shell text.

    A list is run through `command`, so that no alias, function or reserved word replaces the program.

    Raises:
        TypeError: The command is neither text nor a sequence of texts.
        ValueError: The command holds a NUL character or is an empty sequence.
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
