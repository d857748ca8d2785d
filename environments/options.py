"""The options of a command and the arguments of file methods, and the one place where they are checked."""

from __future__ import annotations

import math
import os
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, SupportsFloat, TypedDict, TypeGuard, Unpack

from environments.cancellation import current_scope
from environments.output import LiveOutput, OutputCallback, OutputSink, listener
from environments.variables import is_name


def checked_user(user: object) -> str:
    """Return a user of the target, given by name or number.

    Raises:
        TypeError: It is neither.
        ValueError: It can be no user's.
    """
    if isinstance(user, bool) or not isinstance(user, (str, int)):
        raise TypeError(f"user is of type {type(user).__name__}; give a name or a number")
    text = str(user)
    if not text or text.startswith("-") or any(sign in text for sign in "\0\n:/ "):
        raise ValueError(f"user is {user!r}; give the name or the number of a user of the target")
    return text


def check_count(name: str, value: object) -> int:
    """Return a number of things.

    Raises:
        TypeError: It is none.
        ValueError: It is below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a whole number")
    if value < 1:
        raise ValueError(f"{name} is {value}; give a number from 1 on")
    return value


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
    if not isinstance(path, str) and not _is_path(path):
        raise TypeError(f"path is of type {type(path).__name__}; give text or a PurePosixPath")
    text = str(path)
    if not text or "\0" in text:
        raise ValueError(f"path is {text!r}; give that of a file in the target")
    return text


def _is_path(path: object) -> bool:
    from pathlib import PurePosixPath  # which takes its time to import, and commands do without

    return isinstance(path, PurePosixPath)


def means_directory(path: str) -> bool:
    """Return whether a path can only be that of a directory."""
    return path.rpartition("/")[2] in ("", ".", "..")


def checked_removable(path: object) -> str:
    """Return the path of something of the target that may be removed.

    Raises:
        TypeError: It is no path.
        ValueError: It is empty, holds a NUL character, is the root directory, or ends in `.` or `..`.
    """
    text = checked_path(path)
    if means_directory(text.rstrip("/")):
        raise ValueError(f"path is {text!r}, which is not removed; give the path of something in a directory")
    return text


def checked_limit(limit: object) -> int | None:
    """Return how many bytes to read at most; None is all of them.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is below 0.
    """
    if limit is None:
        return None
    return 0 if limit == 0 and limit is not False else check_count("limit", limit)


def checked_mode(mode: object) -> int | None:
    """Return permission bits; None is the usual ones.

    Raises:
        TypeError: They are no whole number.
        ValueError: There are other bits.
    """
    if mode is None:
        return None
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(f"mode is of type {type(mode).__name__}; give permission bits such as 0o755")
    if not 0 <= mode <= 0o7777:
        raise ValueError(f"mode is {mode}; give permission bits such as 0o755")
    return mode


def checked_data(data: object) -> bytes:
    """Return the contents of a file. Raises TypeError unless they are bytes."""
    if isinstance(data, str):
        raise TypeError("data is of type str; give bytes, or write text with write_text")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data is of type {type(data).__name__}; give bytes")
    return bytes(data)


def _is_real(value: object) -> TypeGuard[SupportsFloat]:
    if isinstance(value, (float, int)):
        return True
    import numbers  # for a fraction, or the like

    return isinstance(value, numbers.Real)


def check_seconds(name: str, value: object) -> float:
    """Return a time as a number.

    Raises:
        TypeError: It is none.
        ValueError: It is not above 0.
    """
    if isinstance(value, bool) or not _is_real(value):
        raise TypeError(f"{name} is of type {type(value).__name__}; give seconds as a number")
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"{name} is {value} s; give a positive number, or math.inf for no limit")
    return seconds


def check_patience(seconds: object) -> float:
    """Return for how long to wait as a number of seconds.

    Raises:
        TypeError: It is none.
        ValueError: It is below 0.
    """
    return 0.0 if seconds == 0 and not isinstance(seconds, bool) else check_seconds("timeout", seconds)


def input_bytes(stdin: object) -> bytes:
    """Return what a command is to read as bytes. Raises TypeError unless it is text, bytes or None."""
    if stdin is None:
        return b""
    if isinstance(stdin, str):
        return stdin.encode("utf-8", "surrogateescape")
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return bytes(stdin)
    raise TypeError(f"stdin is of type {type(stdin).__name__}; give text or bytes")


def checked_variables(env: object) -> Mapping[str, str]:
    """Return the variables for a command.

    Raises:
        TypeError: They are no mapping of texts to texts.
        ValueError: A name or a value is one that no variable can have.
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
"""Shell text, or a program and its arguments, which no shell takes apart."""
_NO_ENV: Mapping[str, str] = MappingProxyType({})


class SharedOptions(TypedDict, total=False):
    """The options of every command, in the session, beside it and in the background."""

    cwd: str | None
    """Directory to run this one command in; the session's own stays as it was. A relative one is taken from there, and
    `~` is the target user's home. Where it cannot be entered, nothing runs. None is the session's."""
    env: Mapping[str, str] | None
    """Variables for this one command."""
    user: str | int | None
    """The user of the target to run as, by name or number. `execute` refuses it: its session is the target user's."""
    session_env: bool
    """Whether a command beside the session begins with what that has exported. Those of a session do anyway."""


class StreamOptions(SharedOptions, total=False):
    """The options of a command whose output is gone through, by `AsyncEnvironment.stream`."""

    timeout: float | None
    """Seconds until the command's whole process tree is ended; None takes `settings.timeout`, `math.inf` sets no limit.
    The start of the target is not counted, see `cancellation.start_limit`."""
    stdin: str | bytes | None
    """Input of the command; without it, the command reads end of file."""
    stderr: StderrMode
    """`"merge"` into the output in the order written, or `"separate"`."""
    max_output_bytes: int | None
    """Bytes of output to keep; None takes `settings.max_output_bytes`."""
    interrupt: threading.Event | None
    """Ends the command when it is set, as `interrupt()` does."""


class CommandOptions(StreamOptions, total=False):
    """The options of a command that is waited for, by `execute`, `execute_oneshot` and `session.execute`."""

    binary: bool
    """Whether the output is wanted as bytes, too: `output_bytes` of the result, and what `on_output` receives."""
    on_output: OutputCallback | None
    """Called in the caller's thread with each piece of output as it arrives. A function with a second argument that it
    needs, or with one of the name `channel`, also receives `"stdout"` or `"stderr"`. What it raises ends the command,
    and is raised. It may not call `execute` of the same session."""


class StartOptions(SharedOptions, total=False):
    """The options of a command in the background, see `BaseEnvironment.start`."""

    pty: bool
    """Whether to give it a terminal."""
    rows: int
    """Height of that terminal in lines; 24 by default."""
    columns: int
    """Width of that terminal in characters; 80 by default."""
    stdin: StdinMode
    """`"open"` for an input that the handle writes to, which is the default; `"none"` for one at its end; `"consumed"`
    for an open one of which the command is certain to read all that is written. The latter two leave the shell that ran
    the command for others, which saves time on a distant target."""
    sink: OutputSink | None
    """Takes the output, in a thread of its own, in place of the handle's `read`."""
    grace: float
    """Seconds between TERM and KILL when it is killed; 1 by default."""


class CheckedCommand(NamedTuple):
    """A command with its options, checked."""

    text: str
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
    functions: tuple[str, ...] = ()
    """Definitions that its shell is given once, see `shell.dialect.base.Request`."""
    words: str = ""
    """The program and its arguments as shell text, if it was asked for by these."""

    @property
    def judged(self) -> str:
        """The shell text that hooks and rules judge: of a program and its arguments these, and not what runs them."""
        return self.words or self.text

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for it any more: its interrupt is set, or the current thread's scope is cancelled."""
        scope = current_scope()
        return bool((self.interrupt and self.interrupt.is_set()) or (scope and scope.cancelled))

    @property
    def can_be_cancelled(self) -> bool:
        """Whether that may come to be."""
        return self.interrupt is not None or current_scope() is not None


def check_names(options: Mapping[str, object], known: Iterable[str], what: str) -> None:
    """Raise TypeError if an option has a name that there is not."""
    if unknown := options.keys() - known:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; {what} has {', '.join(known)}")


def checked(command: CommandText, limit: float = math.inf, **options: Unpack[CommandOptions]) -> CheckedCommand:
    """Check a command and its options.

    Args:
        command: Shell text, or a program and its arguments.
        limit: Seconds of a command that says nothing of a time-out.
        options: All others.

    Raises:
        TypeError: One of them is of a type that it cannot have.
        ValueError: One of them has a value that no backend can take.
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
        listener(options.get("on_output")),
        interrupt,
        words="" if isinstance(command, str) else shlex.join(os.fspath(word) for word in command),
    )


def command_text(command: CommandText) -> str:
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
