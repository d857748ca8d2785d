"""Checks of arguments: those of commands, and of paths and contents of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import SupportsFloat, TypeGuard

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
