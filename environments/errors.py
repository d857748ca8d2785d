"""The family of errors that this package raises."""

from __future__ import annotations

import errno
import os
from typing import TypeVar

_E = TypeVar("_E", bound=BaseException)


class TerminalError(Exception):
    """The root of every error this package raises."""


class EnvironmentStartError(TerminalError):
    """The target could not be started or reached."""


class StartStoppedError(EnvironmentStartError):
    """A start was stopped from outside before the target was up, and what it had made by then was removed.

    `timed_out` says whether that was a time limit, and not an interrupt, a cancelled scope or `cleanup`.
    """

    def __init__(self, message: str, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class EnvironmentLostError(TerminalError):
    """The target went away while it was in use: container removed, link dropped, parent killed.

    `output` holds what the command had printed by then. Whether the command had finished cannot be known,
    so it is never sent again.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class UnsupportedError(TerminalError):
    """The backend cannot do what was asked, and refuses it instead of doing less."""


class SettingsError(TerminalError):
    """A setting is unknown or has a value that is not allowed. The message names source, key and remedy."""


DENIED = "denied, and nothing was run"
"""What the message of a `DeniedError` begins with."""


class DeniedError(TerminalError):
    """A hook, a rule or a person did not allow it, so that nothing was run. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{DENIED}: {reason}")
        self.reason = reason


class CallCancelledError(TerminalError):
    """The scope that a call was made in was cancelled: it was not begun, or ended before it was done."""


class ProcessTimeoutError(TerminalError, TimeoutError):
    """What a background process was expected to print did not come in time. It runs on, and nothing was read."""


class ProcessEndedError(TerminalError, EOFError):
    """A background process has ended without printing what was expected of it. Nothing was read.

    `exit_code` says how it ended.
    """

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class MissingExtraError(TerminalError, ImportError):
    """The backend's client library is not installed. The message names the pip extra that brings it."""


REFUSALS = (EnvironmentStartError, UnsupportedError, SettingsError, DeniedError, MissingExtraError)
"""Errors whose message holds the reason and the remedy."""


def without_cause(error: _E) -> _E:
    """Return an error whose printed traceback shows neither its cause nor where it was raised first.

    The cause stays its `__context__`, with a traceback.
    """
    cause = error.__cause__ or error.__context__
    error.__cause__ = None
    error.__context__ = cause
    return error.with_traceback(None)


class TargetFileError(TerminalError, OSError):
    """A file call could not be done because of what is, or is not, in the target, or because of who its user is.

    `errno`, `strerror` and `filename` are those of an OSError. It is always one of the classes below, each of which is
    the builtin error of its name, too.

    Args:
        number: The system's error number.
        verb: What could not be done, as in "cannot read".
        filename: The path, as the caller gave it.
        backend: The backend's name.
        why: What the target's programs said, if they said anything.
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
    """There is nothing at a path of the target, or a directory on the way is missing and cannot be made."""


class TargetPermissionError(TargetFileError, PermissionError):
    """The target's user may not read, write or search what is at a path, or change the directory it is in."""


class TargetIsADirectoryError(TargetFileError, IsADirectoryError):
    """There is a directory where a file is meant, or the path ends in a slash and so means one."""


class TargetNotADirectoryError(TargetFileError, NotADirectoryError):
    """There is something else where a directory is meant, or on the way to a path."""


class TargetFileExistsError(TargetFileError, FileExistsError):
    """There is something at a path where something new was to be made."""


_OF_NUMBER: dict[int, type[TargetFileError]] = {
    errno.ENOENT: TargetFileNotFoundError,
    errno.EACCES: TargetPermissionError,
    errno.EPERM: TargetPermissionError,
    errno.EISDIR: TargetIsADirectoryError,
    errno.ENOTDIR: TargetNotADirectoryError,
    errno.EEXIST: TargetFileExistsError,
}


NOTHING_THERE = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""Error numbers that say of a path that nothing can be there."""
CLEANED_UP = "the environment was cleaned up; create a new one"
"""What is said of whatever is asked for too late."""


def target_error(number: int, verb: str, path: str, backend: str, why: str = "") -> TerminalError:
    """Return the error for a path of a target, of the class that an error number of the system stands for.

    Args:
        number: That number; 0 where it is not known.
        verb: What could not be done.
        path: The path, as the caller gave it.
        backend: The backend's name.
        why: What the target's programs said; it may be empty where the number is known.
    """
    if kind := _OF_NUMBER.get(number):
        return kind(number, verb, path, backend, why)
    reason = f"{os.strerror(number)}{f' ({why})' if why else ''}" if number else why
    return TerminalError(f"cannot {verb} {path} on backend {backend!r}: {reason}")
