"""File operations on a target: status, write conditions, the interface of all backends, and calls in progress."""

from __future__ import annotations

import asyncio
import codecs
import functools
import posixpath
import shlex
import stat
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from environments.cancellation import CancelScope, check_scope, current_scope, holding, on_scope_cancel
from environments.errors import CLEANED_UP, CallCancelledError, TerminalError
from environments.loop import Call, OutputQueue, current, run, shielded, spawn, waits_for
from environments.observation.observed import observed_call
from environments.progress import Progress, reports_of
from environments.write_guard import WriteGuard

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath

    from environments.base import BaseEnvironment

FileKind = Literal["file", "directory", "symlink", "other"]
_KINDS: dict[int, FileKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Status of a file, directory or link, from `stat` and `list_dir`."""

    name: str
    """Last part of the path. Bytes that are not UTF-8 are surrogates, as in `os.fsdecode`."""
    path: str
    """The requested path; for a directory entry, the directory's path joined with the name."""
    kind: FileKind
    """`other` is a pipe, a socket or a device."""
    size: int
    """Size in bytes."""
    mode: int
    """Permission bits, including set-user-ID, set-group-ID and sticky: 0 to 0o7777."""
    modified: int
    """Modification time in whole seconds since 1970, the finest resolution available on every target."""
    uid: int
    """User id of the owner."""
    gid: int
    """Group id."""
    link_target: str | None = None
    """Destination of a link, as stored; None for other kinds."""

    @property
    def is_file(self) -> bool:
        """True for a regular file."""
        return self.kind == "file"

    @property
    def is_dir(self) -> bool:
        """True for a directory."""
        return self.kind == "directory"

    @property
    def is_symlink(self) -> bool:
        """True for a symbolic link, not followed."""
        return self.kind == "symlink"

    @classmethod
    def made_of(
        cls, path: str, mode: int, size: int, modified: int, uid: int, gid: int, link_target: str | None = None
    ) -> FileStatus:
        """Return the status for the system's numbers.

        Args:
            path: The path to show.
            mode: Kind and permission bits, as in `os.stat_result.st_mode`.
            size: Bytes.
            modified: Seconds since 1970.
            uid: User id.
            gid: Group id.
            link_target: Destination of a link.
        """
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        name = posixpath.basename(path.rstrip("/"))
        return cls(name, path, kind, size, stat.S_IMODE(mode), modified, uid, gid, link_target)


T = TypeVar("T")

PATIENCE = 3.0
"""Seconds to wait for file calls to end. A service's transfer in one piece may take longer and is cut off."""


class FileCalls:
    """The file calls in progress on the loop. A call removes its partial file when cancelled."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[object], CancelScope] = {}
        self._is_over = False

    def check(self) -> None:
        """Raise TerminalError once `end` was called."""
        if self._is_over:
            raise TerminalError(CLEANED_UP)

    async def run(self, work: Callable[[], Awaitable[T]], reports: OutputQueue | None) -> T:
        """Run a file call in its own task and scope.

        The scope ends with the caller's scope, when the caller leaves, and by `end`. Its cancellation ends the call's
        commands, and its functions in worker threads at their next check. The task itself is never cancelled.

        Args:
            work: A coroutine function.
            reports: Carries progress reports to the caller.

        Raises:
            CallCancelledError: The caller's scope was cancelled.
            TerminalError: The calls were ended.
        """
        check_scope()
        self.check()
        scope = CancelScope(outer=current_scope())

        async def done() -> T:
            with scope.active(), holding(reports_of, reports):
                return await work()

        task = spawn(done())
        self._under_way[task] = scope
        try:
            with on_scope_cancel(scope.cancel), scope.calling(lambda: _drop(reports)):
                return await shielded(task)
        except asyncio.CancelledError:  # the caller has left
            scope.cancel()
            await asyncio.wait((task,))
            _ = task.cancelled() or task.exception()  # marked as retrieved, so that asyncio logs nothing
            raise
        except Exception as error:
            if not scope.cancelled:
                raise
            self.check()
            raise CallCancelledError("the scope was cancelled, and the call was ended") from error
        finally:
            del self._under_way[task]

    async def end(self) -> None:
        """Cancel all calls, refuse new ones, and wait for their end."""
        self._is_over = True
        for scope in self._under_way.values():
            scope.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE)


def _drop(reports: OutputQueue | None) -> None:
    """Drop all reports, so that no call waits for the callback."""
    if reports is not None:
        current().soon(reports.drop)


def encoded_text(text: object, encoding: str, errors: str) -> bytes:
    """Encode text for a file; line ends stay unchanged.

    Raises:
        TypeError: The value is not text.
        UnicodeEncodeError: A character is missing from the encoding.
        ValueError: Python does not know the encoding or the `errors`.
    """
    if isinstance(text, (bytes, bytearray, memoryview)):
        raise TypeError(f"text is of type {type(text).__name__}; give a str, or write bytes with write_bytes")
    if not isinstance(text, str):
        raise TypeError(f"text is of type {type(text).__name__}; give a str")
    check_codec(encoding, errors)
    try:
        return text.encode(encoding, errors)
    except UnicodeEncodeError as error:
        error.reason += "; give another encoding, or errors='replace' or 'surrogateescape'"
        raise


def decoded_text(data: bytes, path: TargetPath, encoding: str, errors: str, limit: int | None) -> str:
    """Decode the bytes of a file; line ends stay unchanged.

    Args:
        data: The bytes.
        path: The file, for errors.
        encoding: The encoding.
        errors: Treatment of undecodable bytes, as in `bytes.decode`.
        limit: Maximum bytes that were read. A character cut by the limit is dropped.

    Raises:
        UnicodeDecodeError: Some bytes are undecodable.
    """
    try:
        return codecs.getincrementaldecoder(encoding)(errors).decode(data, final=limit is None or len(data) < limit)
    except UnicodeDecodeError as error:
        advice = f"in {str(path)!r}; give another encoding, or errors='replace', or read it with read_bytes"
        error.reason += f", {advice}"
        raise


def check_codec(encoding: object, errors: object) -> None:
    """Raise TypeError or ValueError for an encoding or error handler unknown to Python."""
    for name, given, example in (("encoding", encoding, "utf-8"), ("errors", errors, "strict")):
        if not isinstance(given, str):
            raise TypeError(f"{name} is of type {type(given).__name__}; give a name such as {example!r}")
    try:
        "".encode(str(encoding))
    except (LookupError, ValueError):  # ValueError for a NUL in the name
        raise ValueError(f"encoding is {encoding!r}, which Python does not know; give one such as 'utf-8'") from None
    try:
        codecs.lookup_error(str(errors))
    except (LookupError, ValueError):
        raise ValueError(f"errors is {errors!r}, which Python does not know; give 'strict' or 'replace'") from None


TargetPath: TypeAlias = "str | PurePosixPath"
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Env = TypeVar("_Env", bound="BaseEnvironment")


def file_method(
    work: Callable[Concatenate[_Env, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[_Env, _P], _R]:
    """Return a blocking file method for a coroutine function on the loop, see `environments.loop.run`.

    The call ends with its caller's scope, and before the environment. Its progress reports reach the caller's thread.
    """

    async def called(self: _Env, call: Call[_R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await _done(self, call, partial(work, self, *args, **kwargs))

    @waits_for(called)
    @functools.wraps(work)
    def method(self: _Env, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        def deliver(report: Progress, _: bytes) -> None:
            self.progress.deliver(report)

        return run(lambda call: called(self, call, *args, **kwargs), deliver if self.progress.has_receiver else None)

    return observed_call(method)


def run_on_files(env: BaseEnvironment, work: Callable[[TargetFiles], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on an environment's files, on the loop, and return its result.

    For tools, whose calls are recorded as tool calls: asks no hook and keeps no record.
    """

    async def called(call: Call[T]) -> T:
        return await _done(env, call, lambda: work(env.files))

    return run(called)


async def _done(env: BaseEnvironment, call: Call[T], work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await env.file_calls.run(work, call.pieces)
    finally:
        env.touch()


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """Conditions for writing a file, checked in the same step as the write."""

    guard: WriteGuard | None = None
    """Protected files."""
    expected: bytes | None = None
    """Required contents of the existing file; None for any."""
    must_be_new: bool = False
    """True if the file must not exist."""
    unless_crlf: bool = False
    """True to refuse a file of at most `CRLF_LIMIT` bytes whose lines all end in CRLF."""


CRLF_LIMIT = 10_000_000
"""Maximum bytes of a file whose line ends are checked."""
ANY = WriteConditions()


BrokenCondition = Literal["refused", "changed", "crlf", "exists"]
"""The failed condition: the guard, the contents, the line ends, or an existing file."""


class WriteConditionError(TerminalError):
    """A file was not written because a condition failed.

    Args:
        kind: The failed condition.
        why: Reason of the guard.
    """

    def __init__(self, kind: BrokenCondition, why: str = "") -> None:
        super().__init__(why or f"the file is not as expected ({kind})")
        self.kind = kind


class TargetFiles(ABC):
    """File operations on a target as coroutines of the loop, with validated paths. See `BaseEnvironment`."""

    @abstractmethod
    async def write(self, path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        """Write a file, and return True if the file is new.

        Args:
            path: The file.
            data: Contents.
            mode: Permission bits in octal; empty keeps the existing bits, or uses the default.
            conditions: Conditions.

        Raises:
            WriteConditionError: A condition failed.
        """

    @abstractmethod
    async def replace(self, path: str, old: str, new: str, guard: WriteGuard) -> bytes | None:
        """Replace the only occurrence of a text in a file, read and written in one step, and return the old contents.

        Returns None, without a change, if the replacement takes more than one access to the target, and for any
        obstacle other than the guard. `read` and `write` then do the replacement, or report the obstacle.

        Args:
            path: The file.
            old: The text, in whole characters.
            new: The replacement.
            guard: Protected files.

        Raises:
            WriteConditionError: The file is protected.
        """

    @abstractmethod
    async def check(self, path: str, conditions: WriteConditions) -> None:
        """Raise WriteConditionError if a condition for writing the file fails. Changes nothing."""

    @abstractmethod
    async def move(self, source: str, target: str, guard: WriteGuard) -> None:
        """Move a file or a link to a path that does not exist. The parent directory is created.

        Raises:
            WriteConditionError: The new path is protected or exists.
        """

    @abstractmethod
    async def delete(self, path: str, guard: WriteGuard) -> None:
        """Remove a file or a link, if present. Raises WriteConditionError if the file is protected."""

    @abstractmethod
    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return the contents, or the first `limit` bytes."""

    @abstractmethod
    async def put(self, local: Path, remote: str) -> None:
        """Copy a local file to the target."""

    @abstractmethod
    async def get(self, remote: str, local: Path) -> None:
        """Copy a file of the target to this machine."""

    @abstractmethod
    async def put_dir(self, local: Path, remote: str, *, skip_unchanged: bool) -> None:
        """Copy a local directory to the target."""

    @abstractmethod
    async def get_dir(self, remote: str, local: Path, *, skip_unchanged: bool) -> None:
        """Copy a directory of the target to this machine."""

    @abstractmethod
    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        """Return the status of a path, following links if asked."""

    @abstractmethod
    async def exists(self, path: str) -> bool:
        """Return True if the path exists."""

    @abstractmethod
    async def entries(self, path: str) -> list[FileStatus]:
        """Return the entries of a directory, sorted by name."""

    @abstractmethod
    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Create a directory."""

    @abstractmethod
    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        """Remove a path."""


def removal_command(path: str) -> str:
    """Return shell text that removes a path of the target with all contents, despite missing permissions.

    Args:
        path: The path. The file behind a symbolic link stays.
    """
    word = shlex.quote(path)
    # The owner may have removed permissions from a directory; on a link, chmod would change the file behind it.
    return f"rm -rf -- {word} 2>/dev/null || {{ [ -L {word} ] || chmod -R u+rwX -- {word}; rm -rf -- {word}; }}"
