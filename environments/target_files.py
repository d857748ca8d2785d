"""The files of a target: what every environment does with them."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from environments.file_calls import FileCalls
from environments.loop import Call, in_worker, run, waits_for
from environments.observation.files import watched_call
from environments.observation.watched import Watched
from environments.progress import Progress, Reporter

if TYPE_CHECKING:  # importing these takes its time, and commands do without
    from pathlib import Path, PurePosixPath

    from environments.file_status import FileStatus

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
