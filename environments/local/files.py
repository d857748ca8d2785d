"""Files and entries of directories of this machine as those of a target, in worker threads."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import stat
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from environments.errors import NOTHING_THERE, TerminalError, target_error
from environments.files import FileStatus
from environments.local_files import make_folders, naming, open_regular, read_pieces, replace_file
from environments.loop import in_worker
from environments.options import means_directory
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from environments.starting import Counter

if TYPE_CHECKING:
    from environments.local.environment import LocalEnvironment


class LocalFiles(ShellFiles):
    """Files of this machine, see `ShellFiles`.

    Args:
        env: The environment.
    """

    def __init__(self, env: LocalEnvironment) -> None:
        super().__init__(Runner(env), "local", env.progress)
        self._env = weakref.proxy(env)

    async def _place(self, path: str) -> str:
        place: str = await self._env.absolute(path)
        return place

    async def write(self, path: str, data: bytes, mode: str = "") -> None:
        """Write a file, see `ShellFiles`."""
        self.check_name(path)
        await in_worker(_write, path, await self._place(path), data, int(mode, 8) if mode else None)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """Return a file, see `ShellFiles`."""
        return await in_worker(_read, path, await self._place(path), limit)

    async def put(self, local: Path, remote: str) -> None:
        """Copy a file, see `ShellFiles`."""
        self.check_name(remote)
        place = await self._place(remote)
        with await in_worker(open_regular, local) as file:
            status = os.fstat(file.fileno())
            async with self.progress.counting(f"uploading {remote}", status.st_size) as count:
                with _in_target("write", remote):
                    await in_worker(_copy, local, file, Path(place), count)

    async def get(self, remote: str, local: Path) -> None:
        """Copy a file, see `ShellFiles`."""
        place = await self._place(remote)
        with await in_worker(_open, remote, place) as file:
            status = os.fstat(file.fileno())
            async with self.progress.counting(f"downloading {remote}", status.st_size) as count:
                await in_worker(_copy, Path(place), file, local, count)

    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        """Return what is at a path, see `ShellFiles`."""
        return await in_worker(_stat, path, await self._place(path), follow)

    async def entries(self, path: str) -> list[FileStatus]:
        """Return what is in a directory, see `ShellFiles`."""
        return await in_worker(_list, path, await self._place(path))

    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Make a directory, see `ShellFiles`."""
        await in_worker(_mkdir, path, Path(await self._place(path)), parents, exist_ok, mode)

    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        """Remove what is at a path, see `ShellFiles`."""
        try:
            await in_worker(_remove, path, await self._place(path), recursive, missing_ok)
        except RecursionError:  # Python's own way calls itself for each level
            await super().remove(path, recursive=recursive, missing_ok=missing_ok)

    async def exists(self, path: str) -> bool:
        """Return whether something is at a path, see `ShellFiles`."""
        return await in_worker(_exists, path, await self._place(path))


# In worker threads. `given` is a path as the caller gave it, `place` the same as an absolute one.


@contextlib.contextmanager
def _in_target(verb: str, given: str) -> Iterator[None]:
    """Turn an error of the system into that of a target's file."""
    try:
        yield
    except TerminalError:
        raise
    except OSError as error:
        raise target_error(error.errno or 0, verb, given, "local", "" if error.errno else str(error)) from error


def _path_of(place: str) -> Path:
    """Return the path of what is there. Raises NotADirectoryError if only a directory can have it, and it is none."""
    path = Path(place)
    if means_directory(place) and not stat.S_ISDIR(path.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


def _open(given: str, place: str) -> BinaryIO:
    with _in_target("read", given):
        return open_regular(_path_of(place))


def _read(given: str, place: str, limit: int | None) -> bytes:
    with _in_target("read", given):
        path = _path_of(place)
        with open_regular(path) as file, naming(path, "read"):
            return file.read() if limit is None else file.read(limit)


def _write(given: str, place: str, data: bytes, mode: int | None) -> None:
    with _in_target("write", given):
        replace_file(Path(place), lambda file: file.write(data), mode)


def _copy(source: Path, file: BinaryIO, target: Path, count: Counter) -> None:
    """Copy an open file."""

    def write(copy: BinaryIO) -> None:
        for piece in read_pieces(source, file):
            copy.write(piece)
            count.add(len(piece))

    replace_file(target, write, stat.S_IMODE(os.fstat(file.fileno()).st_mode))


def _stat(given: str, place: str, follow: bool) -> FileStatus:
    with _in_target("look at", given):
        return _status(given, _path_of(place), follow=follow or means_directory(place))


def _list(given: str, place: str) -> list[FileStatus]:
    found = []
    with _in_target("list", given):
        for path in sorted(Path(place).iterdir(), key=lambda path: path.name):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                found.append(_status(posixpath.join(given, path.name), path, follow=False))
    return found


def _status(given: str, path: Path, *, follow: bool) -> FileStatus:
    found = path.stat(follow_symlinks=follow)
    link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None  # noqa: PTH115  # a Path would tidy it up
    changed = found.st_mtime_ns // 1_000_000_000
    return FileStatus.made_of(given, found.st_mode, found.st_size, changed, found.st_uid, found.st_gid, link)


def _mkdir(given: str, path: Path, parents: bool, exist_ok: bool, mode: int | None) -> None:
    with _in_target("make directory", given):
        if parents:
            make_folders(path.parent)
        try:
            path.mkdir()
        except FileExistsError:
            if not exist_ok or not path.is_dir():
                raise
        else:
            if mode is not None:
                path.chmod(mode)


def _remove(given: str, place: str, recursive: bool, missing_ok: bool) -> None:
    path = Path(place)
    with _in_target("remove", given):
        try:
            is_directory = stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            if missing_ok:
                return
            raise
        if is_directory and not recursive:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if is_directory:
            shutil.rmtree(path)
        elif place.endswith("/"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        else:
            path.unlink()


def _exists(given: str, place: str) -> bool:
    with _in_target("look at", given):
        try:
            _path_of(place).stat()
        except OSError as error:
            if error.errno not in NOTHING_THERE:
                raise
            return False
        return True
