"""The files of a target: what every environment does with them."""

from __future__ import annotations

import asyncio
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
from environments.loop import Call, Pieces, current, in_worker, run, shielded, spawn, waits_for
from environments.observation.files import watched_call
from environments.observation.watched import Watched
from environments.starting import Progress, Reporter, reports_of

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath

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


TargetPath: TypeAlias = "str | PurePosixPath"
_P = ParamSpec("_P")
_R = TypeVar("_R")
_Files = TypeVar("_Files", bound="TargetFiles")


def file_method(
    work: Callable[Concatenate[_Files, _P], Coroutine[Any, Any, _R]],
) -> Callable[Concatenate[_Files, _P], _R]:
    """Return a file method that has the loop run a coroutine function, and waits for it, see `environments.loop.run`.

    The work ends with its caller's scope, and before the environment. Its reports go to the caller's thread.
    """

    async def called(self: _Files, call: Call[_R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return await self._file_calls.do(partial(work, self, *args, **kwargs), call.pieces)
        finally:
            self.touch()

    @waits_for(called)
    @functools.wraps(work)
    def method(self: _Files, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        def deliver(report: Progress, _: bytes) -> None:
            self.progress.deliver(report)

        return run(lambda call: called(self, call, *args, **kwargs), deliver if self.progress.is_heard else None)

    return watched_call(method)


def _blocking(method: Callable[Concatenate[_Files, _P], _R]) -> Callable[Concatenate[_Files, _P], _R]:
    """Return a file method that runs a function on a worker thread."""

    @functools.wraps(method)
    async def work(self: _Files, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return await in_worker(partial(method, self, *args, **kwargs))

    return file_method(work)


class TargetFiles(ABC):
    """What an environment does with files of its target, whatever `execute` is doing.

    A relative path is taken from the session's working directory, and `~` is the target user's home. A name may hold
    any bytes: those that are not UTF-8 are surrogates, as in `os.fsdecode`. A path that ends in a slash means a
    directory.

    What is in the way at a path of the target is an error that is a `TargetFileError` and the builtin error of its
    name: FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError or FileExistsError, with `errno` and
    `filename`. In the same way a path of this machine that `put_file`, `get_file`, `put_dir` and `get_dir` are given is
    a plain builtin error. Whatever else goes wrong, on either side, is a TerminalError with the system's own reason.

    In a cancelled scope all of it raises `CallCancelledError`, also in the middle, and leaves no part of a file. What
    `cleanup` cuts short says so.
    """

    observation: Watched
    progress: Reporter

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Have those of these methods run on a worker thread that a backend has as plain functions."""
        super().__init_subclass__(**kwargs)
        for name in TargetFiles.__abstractmethods__ & vars(cls).keys():
            if not hasattr(vars(cls)[name], "work"):
                setattr(cls, name, _blocking(vars(cls)[name]))

    def __init__(self) -> None:
        super().__init__()
        self._file_calls = FileCalls()

    def check_usable(self) -> None:
        """Raise TerminalError if `cleanup` was called."""
        self._file_calls.check()

    def touch(self) -> None:  # noqa: B027
        """Note that the environment is in use."""

    def end_file_calls(self) -> None:
        """Have all of it that is under way say that the environment was cleaned up. A backend's `cleanup` begins so."""
        run(lambda _: self._file_calls.end())

    @abstractmethod
    def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file in the target, replacing it in one step.

        Missing parent directories are made, but not the session's own. What is there already must be a regular file,
        or a link to one, that the target's user owns, though it may be read-only, or may write to. It keeps its
        permissions.

        Raises:
            TargetIsADirectoryError: There is a directory, or the path ends in a slash.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not write there, or replace that file.
            TargetFileNotFoundError: A parent directory is missing and cannot be made, as in `/proc`.
            TerminalError: It could not be written for another reason.
        """

    @abstractmethod
    def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return a regular file of the target, or its beginning.

        Args:
            path: The file. Anything else, such as a pipe or a device, is not even opened.
            limit: Bytes to return at most, and to move; None is all of it.

        Raises:
            TargetFileNotFoundError: No such file.
            TargetIsADirectoryError: It is a directory.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not read it, or search a directory that it is in.
            TerminalError: It could not be read for another reason, such as being a pipe.
            ValueError: The limit is below 0.
        """

    @abstractmethod
    def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a file from here to the target, with its permissions.

        The path there, and errors of it, are as for `write_bytes`: it names the file, not the directory to put it in.
        """

    @abstractmethod
    def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file from the target to here, with its permissions.

        The path there, and errors of it, are as for `read_bytes`. What is here is replaced as `write_bytes` does it.
        """

    @abstractmethod
    def put_dir(self, local: str | Path, remote: TargetPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from here to the target, as one stream.

        Files, directories and symbolic links are copied, with permissions and times in whole seconds; links are not
        followed. Sockets, pipes and devices are left out. What is there already and has no counterpart here stays; a
        link or a file that has one is replaced. The target needs `tar`.

        Args:
            local: The directory here.
            remote: The directory there, which is made; a path as for `write_bytes`. One that is there already keeps
                its own permissions and owner, as it may be a home.
            skip_unchanged: Whether to leave out regular files that have the same size and time there.

        Raises:
            NotADirectoryError: There is no such directory here.
            TargetNotADirectoryError: There is something else there, or the path leads through it.
            TargetPermissionError: The user may not make or change it, or a directory in it.
            TerminalError: It could not be copied, or not all of it, for another reason.
        """

    @abstractmethod
    def get_dir(self, remote: TargetPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from the target to here, as `put_dir` does the other way.

        A member that would be written outside of `local` is refused.

        Raises:
            TargetFileNotFoundError: There is no such directory in the target.
            TargetNotADirectoryError: There is something else.
            TargetPermissionError: The user may not read it, or something in it.
            TerminalError: It could not be copied, or not all of it.
        """

    @abstractmethod
    def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return what kind of thing is at a path, its size, permissions, owner, and when it was changed.

        Args:
            path: The path.
            follow_symlinks: Whether it is asked of what a link points to, and not of the link itself.

        Raises:
            TargetFileNotFoundError: There is nothing, or only a link to nothing.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not search a directory on the way.
            TerminalError: It is not known for another reason.
        """

    @abstractmethod
    def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return what is in a directory, sorted by name; of a link, what is known of the link itself.

        What is removed while the directory is read may be there or not.

        Raises:
            TargetFileNotFoundError: There is no such directory.
            TargetNotADirectoryError: It is something else, or the path leads through something else.
            TargetPermissionError: The user may not read it, or not search it.
            TerminalError: It could not be read for another reason.
        """

    @abstractmethod
    def mkdir(self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None) -> None:
        """Make a directory.

        Args:
            path: The directory.
            parents: Whether to make missing parent directories, with the usual permissions.
            exist_ok: Whether it may be there already. It is then left as it is.
            mode: Its permission bits, whatever the umask is; None takes the usual ones.

        Raises:
            TargetFileExistsError: There is something else at the path, or a directory with `exist_ok=False`.
            TargetFileNotFoundError: A parent directory is missing.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not make it there.
            TerminalError: It could not be made for another reason.
            ValueError: The mode is no permission bits.
        """

    @abstractmethod
    def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link and not what it points to, or a directory.

        Args:
            path: What to remove.
            recursive: Whether a directory is removed, with all that is in it. No link in it is followed.
            missing_ok: Whether it is no error that there is nothing.

        Raises:
            TargetFileNotFoundError: There is nothing.
            TargetIsADirectoryError: It is a directory, and `recursive` is false.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not remove it, or something in it.
            TerminalError: It could not be removed, or not all of it, for another reason.
            ValueError: The path is the root directory, or ends in `.` or `..`.
        """

    @abstractmethod
    def exists(self, path: TargetPath) -> bool:
        """Return whether there is something at a path; a link to nothing is not something.

        Raises:
            TargetPermissionError: That cannot be known, as the user may not search a directory on the way.
            TerminalError: It is not known for another reason.
        """


def removing(path: str) -> str:
    """Return shell text that removes a path of a target with all that is in it, whatever its permissions.

    Args:
        path: The path. Of a symbolic link, what it points to stays as it is.
    """
    word = shlex.quote(path)
    # Somebody may have taken himself the right to look into what he made; of a link, chmod would mean what it leads to.
    return f"rm -rf -- {word} 2>/dev/null || {{ [ -L {word} ] || chmod -R u+rwX -- {word}; rm -rf -- {word}; }}"
