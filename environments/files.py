"""The files of a target: what every environment does with them."""

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

from environments.cancellation import CancelScope, check_scope, current_scope, ended_in_scope, holding
from environments.errors import CLEANED_UP, CallCancelledError, TerminalError
from environments.loop import Call, Pieces, current, run, shielded, spawn, waits_for
from environments.observation.observed import observed_call
from environments.starting import Progress, reports_of
from environments.write_guard import WriteGuard

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath

    from environments.base import BaseEnvironment

FileKind = Literal["file", "directory", "symlink", "other"]
_KINDS: dict[int, FileKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What `stat` and `list_dir` say of a file, a directory or a link."""

    name: str
    """The last part of the path. Bytes that are not UTF-8 are surrogates, as in `os.fsdecode`."""
    path: str
    """The path that was asked for; of an entry of a directory, that of the directory, a slash, and the name."""
    kind: FileKind
    """`other` is a pipe, a socket or a device."""
    size: int
    """Bytes."""
    mode: int
    """Permission bits, with set-user-ID, set-group-ID and sticky: 0 to 0o7777."""
    modified: int
    """When the contents were changed last: whole seconds since 1970, the finest that every target tells."""
    uid: int
    """The number of the user that it belongs to."""
    gid: int
    """The number of its group."""
    link_target: str | None = None
    """What a link points to, as it is written there; None for all else."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "file"

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link, which was not followed."""
        return self.kind == "symlink"

    @classmethod
    def made_of(
        cls, path: str, mode: int, size: int, modified: int, uid: int, gid: int, link_target: str | None = None
    ) -> FileStatus:
        """Return what the system's own numbers say of a path.

        Args:
            path: The path, as it is to be shown.
            mode: The kind and the permission bits, as in `os.stat_result.st_mode`.
            size: Bytes.
            modified: Seconds since 1970.
            uid: The user's number.
            gid: The group's number.
            link_target: What a link points to.
        """
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        name = posixpath.basename(path.rstrip("/"))
        return cls(name, path, kind, size, stat.S_IMODE(mode), modified, uid, gid, link_target)


T = TypeVar("T")

PATIENCE = 3.0
"""Seconds to wait for them to end. What a service moves in one piece may take longer, and is then cut off."""


class FileCalls:
    """Those that are under way, on the loop. One that is killed leaves a part of a file; each removes that itself."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[object], CancelScope] = {}
        self._is_over = False

    def check(self) -> None:
        """Raise TerminalError if there may be none any more."""
        if self._is_over:
            raise TerminalError(CLEANED_UP)

    async def do(self, work: Callable[[], Awaitable[T]], reports: Pieces | None) -> T:
        """Do the work of one of them, in a task and a scope of its own.

        The scope ends with that of the caller, with a caller that leaves, and by `end`. It ends the work's commands,
        and its functions in worker threads at their next look. The task itself is never cancelled.

        Args:
            work: A coroutine function.
            reports: Takes reports to the caller.

        Raises:
            CallCancelledError: The scope of the caller was cancelled.
            TerminalError: They were ended.
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
            with ended_in_scope(scope.cancel), scope.calling(lambda: _drop(reports)):
                return await shielded(task)
        except asyncio.CancelledError:  # the caller has left
            scope.cancel()
            await asyncio.wait((task,))
            _ = task.cancelled() or task.exception()  # of which nobody is told
            raise
        except Exception as error:
            if not scope.cancelled:
                raise
            self.check()
            raise CallCancelledError("the scope that it was called in was cancelled, and it was ended") from error
        finally:
            del self._under_way[task]

    async def end(self) -> None:
        """Cancel them, let no more begin, and wait until they have ended."""
        self._is_over = True
        for scope in self._under_way.values():
            scope.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE)


def _drop(reports: Pieces | None) -> None:
    """Have nothing wait for the callback any more."""
    if reports is not None:
        current().soon(reports.drop)


def encoded_text(text: object, encoding: str, errors: str) -> bytes:
    """Return text as the bytes of a file; line ends stay as they are.

    Raises:
        TypeError: It is no text.
        UnicodeEncodeError: The encoding lacks a character.
        ValueError: Python has no such encoding, or no such `errors`.
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
    """Return the bytes of a file as text; line ends stay as they are.

    Args:
        data: The bytes.
        path: The file, for an error.
        encoding: The encoding.
        errors: The treatment of bytes that are not text in it, as in `bytes.decode`.
        limit: The number of bytes that were read at most. A character that ends behind them is left out.

    Raises:
        UnicodeDecodeError: Some are not text.
    """
    try:
        return codecs.getincrementaldecoder(encoding)(errors).decode(data, final=limit is None or len(data) < limit)
    except UnicodeDecodeError as error:
        advice = f"in {str(path)!r}; give another encoding, or errors='replace', or read it with read_bytes"
        error.reason += f", {advice}"
        raise


def check_codec(encoding: object, errors: object) -> None:
    """Raise TypeError or ValueError unless Python knows an encoding, and a treatment of what does not fit it."""
    for name, given, example in (("encoding", encoding, "utf-8"), ("errors", errors, "strict")):
        if not isinstance(given, str):
            raise TypeError(f"{name} is of type {type(given).__name__}; give a name such as {example!r}")
    try:
        "".encode(str(encoding))
    except (LookupError, ValueError):  # the latter for a NUL in its name
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
    """Return a file method that has the loop run a coroutine function, and waits for it, see `environments.loop.run`.

    The work ends with its caller's scope, and before the environment. Its reports go to the caller's thread.
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
    """Have the loop run a coroutine function on the files of an environment, and return its result.

    It is for tools, whose calls are recorded as such: no hook is asked, and no record is kept.
    """

    async def called(call: Call[T]) -> T:
        return await _done(env, call, lambda: work(env.files))

    return run(called)


async def _done(env: BaseEnvironment, call: Call[T], work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return await env._file_calls.do(work, call.pieces)
    finally:
        env.touch()


@dataclass(frozen=True, slots=True)
class WriteConditions:
    """Conditions of writing a file, checked in the step that writes it."""

    guard: WriteGuard | None = None
    """Files that are not written."""
    expected: bytes | None = None
    """What the file has to hold; None is anything."""
    must_be_new: bool = False
    """True if there must be no such file yet."""
    unless_crlf: bool = False
    """True to leave a file of at most `CRLF_LIMIT` bytes as it is whose lines all end in CRLF."""


CRLF_LIMIT = 10_000_000
"""Bytes up to which the lines of a file are looked at."""
ANY = WriteConditions()


BrokenCondition = Literal["refused", "changed", "crlf", "exists"]
"""A condition that does not hold: the guard, the contents, the ends of lines, or that there is no file."""


class WriteConditionError(TerminalError):
    """A file is not as the conditions of writing it demand, and was not written.

    Args:
        kind: Which of the conditions.
        why: The reason of a refusal.
    """

    def __init__(self, kind: BrokenCondition, why: str = "") -> None:
        super().__init__(why or f"the file is not as expected ({kind})")
        self.kind = kind


class TargetFiles(ABC):
    """The files of a target, by coroutines of the loop. Paths are checked; `BaseEnvironment` has the descriptions."""

    @abstractmethod
    async def write(self, path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        """Write a file, and return whether it is new.

        Args:
            path: The file.
            data: Its contents.
            mode: Its permission bits, in octal; empty keeps those that are there, or takes the usual ones.
            conditions: Conditions.

        Raises:
            WriteConditionError: One of the conditions does not hold.
        """

    @abstractmethod
    async def replace(self, path: str, old: str, new: str, guard: WriteGuard) -> bytes | None:
        """Replace the only occurrence of a text in a file, in the step that reads it, and return what that held before.

        It returns None, and changes nothing, where that takes more than one look at the target, and whenever something
        is in the way but the guard: by `read` and `write` it can then be done, or found out why not.

        Args:
            path: The file.
            old: The text, of whole characters.
            new: What takes its place.
            guard: Files that are not written.

        Raises:
            WriteConditionError: The guard keeps the file.
        """

    @abstractmethod
    async def check(self, path: str, conditions: WriteConditions) -> None:
        """Raise WriteConditionError if a file could not be written under these conditions. Nothing is changed."""

    @abstractmethod
    async def move(self, source: str, target: str, guard: WriteGuard) -> None:
        """Give a file, or a link, another path, at which there must be nothing. Its directory is made.

        Raises:
            WriteConditionError: The guard keeps the new path, or something is there.
        """

    @abstractmethod
    async def delete(self, path: str, guard: WriteGuard) -> None:
        """Remove a file, or a link, if there is one. Raises WriteConditionError if the guard keeps it."""

    @abstractmethod
    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file, or its first `limit` bytes."""

    @abstractmethod
    async def put(self, local: Path, remote: str) -> None:
        """Copy a file from here."""

    @abstractmethod
    async def get(self, remote: str, local: Path) -> None:
        """Copy a file to here."""

    @abstractmethod
    async def put_dir(self, local: Path, remote: str, *, skip_unchanged: bool) -> None:
        """Copy a directory from here."""

    @abstractmethod
    async def get_dir(self, remote: str, local: Path, *, skip_unchanged: bool) -> None:
        """Copy a directory to here."""

    @abstractmethod
    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        """Return what is at a path, or at the end of the links there."""

    @abstractmethod
    async def exists(self, path: str) -> bool:
        """Return whether something is at a path."""

    @abstractmethod
    async def entries(self, path: str) -> list[FileStatus]:
        """Return what is in a directory, sorted by name."""

    @abstractmethod
    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Make a directory."""

    @abstractmethod
    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        """Remove what is at a path."""


def removing(path: str) -> str:
    """Return shell text that removes a path of a target with all that is in it, whatever its permissions.

    Args:
        path: The path. Of a symbolic link, what it points to stays as it is.
    """
    word = shlex.quote(path)
    # Somebody may have taken himself the right to look into what he made; of a link, chmod would mean what it leads to.
    return f"rm -rf -- {word} 2>/dev/null || {{ [ -L {word} ] || chmod -R u+rwX -- {word}; rm -rf -- {word}; }}"
