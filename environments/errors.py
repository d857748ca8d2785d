"""The errors of this package."""

from __future__ import annotations

import errno
import os
from typing import TypeVar

_E = TypeVar("_E", bound=BaseException)


class TerminalError(Exception):
    """Base class of all errors of this package."""


class EnvironmentStartError(TerminalError):
    """The target could not be started or reached."""


class StartStoppedError(EnvironmentStartError):
    """A start was stopped before the target was up. Everything created by then was removed.

    `timed_out` is True for a time limit, and False for an interrupt, a cancelled scope or `cleanup`.
    """

    def __init__(self, message: str, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class EnvironmentLostError(TerminalError):
    """The target was lost while in use: container removed, link dropped, parent killed.

    `output` holds the command's output so far. The command may or may not have finished, so there is no retry.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class UnsupportedError(TerminalError):
    """The backend does not support the request, and refuses it instead of doing less."""


class SettingsError(TerminalError):
    """A setting is unknown or its value is not allowed. The message names source, key and remedy."""


DENIED = "denied, and nothing was run"
"""Prefix of a `DeniedError`'s message."""


class DeniedError(TerminalError):
    """A hook, a rule or a person denied a command, script or tool call, and nothing was run. `reason` explains why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{DENIED}: {reason}")
        self.reason = reason


class CallCancelledError(TerminalError):
    """The scope of a call was cancelled: the call did not begin, or ended half way."""


class ProcessTimeoutError(TerminalError, TimeoutError):
    """A background process did not print the expected text in time. It keeps running, and no output was consumed."""


class ProcessEndedError(TerminalError, EOFError):
    """A background process ended without printing the expected text. No output was consumed.

    `exit_code` is its exit code, if known.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MissingExtraError(TerminalError, ImportError):
    """The backend's client library is not installed. The message names the pip extra to install."""


REFUSALS = (EnvironmentStartError, UnsupportedError, SettingsError, DeniedError, MissingExtraError)
"""Errors with reason and remedy in the message."""


def without_cause(error: _E) -> _E:
    """Return an error whose printed traceback shows neither its cause nor the place of the first raise.

    The cause stays its `__context__`, with a traceback.
    """
    cause = error.__cause__ or error.__context__
    error.__cause__ = None
    error.__context__ = cause
    return error.with_traceback(None)


class TargetFileError(TerminalError, OSError):
    """A file method failed on a path of the target, or on the permissions of the target's user.

    `errno`, `strerror` and `filename` are those of an OSError. The error always belongs to a subclass below, which is
    also the builtin error of its name.

    Args:
        number: The system's errno.
        verb: The failed action, such as "read" in "cannot read".
        filename: The caller's path.
        backend: Name of the backend.
        why: Message of the target's program, if any.
    """

    def __init__(self, number: int, verb: str, filename: str, backend: str, why: str = "") -> None:
        super().__init__(number, os.strerror(number), filename)
        self.verb = verb
        self.backend = backend
        self.why = why

    def __str__(self) -> str:
        said = f" ({self.why})" if self.why else ""
        return f"cannot {self.verb} {self.filename} on backend {self.backend!r}: {self.strerror}{said}"

    def __reduce__(self) -> tuple[type[TargetFileError], tuple[int | None, str, object, str, str]]:
        return type(self), (self.errno, self.verb, self.filename, self.backend, self.why)


class TargetFileNotFoundError(TargetFileError, FileNotFoundError):
    """The path does not exist, or a parent directory is missing and cannot be created."""


class TargetPermissionError(TargetFileError, PermissionError):
    """The target's user may not read, write or search the path, or change its directory."""


class TargetIsADirectoryError(TargetFileError, IsADirectoryError):
    """A directory stands in place of a file, or the path ends in a slash and so names a directory."""


class TargetNotADirectoryError(TargetFileError, NotADirectoryError):
    """Another kind of file stands in place of a directory, at the path or at a parent."""


class TargetFileExistsError(TargetFileError, FileExistsError):
    """The path of a new file or directory exists already."""


_OF_NUMBER: dict[int, type[TargetFileError]] = {
    errno.ENOENT: TargetFileNotFoundError,
    errno.EACCES: TargetPermissionError,
    errno.EPERM: TargetPermissionError,
    errno.EISDIR: TargetIsADirectoryError,
    errno.ENOTDIR: TargetNotADirectoryError,
    errno.EEXIST: TargetFileExistsError,
}


NOTHING_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""Error numbers of a path that cannot exist."""
CLEANED_UP = "the environment was cleaned up; create a new one"
"""Message of every call after `cleanup`."""


def target_error(number: int, verb: str, path: str, backend: str, why: str = "") -> TerminalError:
    """Return the error for a path of the target, of the class for an errno.

    Args:
        number: The system's errno; 0 if unknown.
        verb: The failed action, such as "read" in "cannot read".
        path: The caller's path.
        backend: Name of the backend.
        why: Message of the target's program; may be empty if the errno is known.
    """
    if kind := _OF_NUMBER.get(number):
        return kind(number, verb, path, backend, why)
    reason = f"{os.strerror(number)}{f' ({why})' if why else ''}" if number else why
    return TerminalError(f"cannot {verb} {path} on backend {backend!r}: {reason}")
