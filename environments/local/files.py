"""Files and directories of this machine as those of a target, in worker threads."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import shutil
import stat
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from environments.errors import NOTHING_THERE, TerminalError, target_error
from environments.files import ANY, CRLF_LIMIT, FileStatus, WriteConditionError, WriteConditions
from environments.local_files import (
    check_regular,
    make_folders,
    naming,
    open_regular,
    opened_folder,
    read_pieces,
    replace_file,
    replace_in,
)
from environments.loop import in_worker
from environments.options import means_directory
from environments.progress import Counter
from environments.shell.files import ShellFiles
from environments.shell.transfer import Runner
from environments.write_guard import WriteGuard

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

    async def write(self, path: str, data: bytes, mode: str = "", conditions: WriteConditions = ANY) -> bool:
        self.check_name(path)
        return await in_worker(_write, path, await self._place(path), data, int(mode, 8) if mode else None, conditions)

    async def replace(self, path: str, old: str, new: str, guard: WriteGuard) -> bytes | None:
        return None  # reading and writing takes no longer here

    async def check(self, path: str, conditions: WriteConditions) -> None:
        await in_worker(_check, path, await self._place(path), conditions)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        return await in_worker(_read, path, await self._place(path), limit)

    async def put(self, local: Path, remote: str) -> None:
        self.check_name(remote)
        place = await self._place(remote)
        with await in_worker(open_regular, local) as file:
            status = os.fstat(file.fileno())
            async with self.progress.counting(f"uploading {remote}", status.st_size) as count:
                with _in_target("write", remote):
                    await in_worker(_copy, local, file, Path(place), count)

    async def get(self, remote: str, local: Path) -> None:
        place = await self._place(remote)
        with await in_worker(_open, remote, place) as file:
            status = os.fstat(file.fileno())
            async with self.progress.counting(f"downloading {remote}", status.st_size) as count:
                await in_worker(_copy, Path(place), file, local, count)

    async def stat(self, path: str, *, follow: bool) -> FileStatus:
        return await in_worker(_stat, path, await self._place(path), follow)

    async def entries(self, path: str) -> list[FileStatus]:
        return await in_worker(_list, path, await self._place(path))

    async def mkdir(self, path: str, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        await in_worker(_mkdir, path, Path(await self._place(path)), parents, exist_ok, mode)

    async def remove(self, path: str, *, recursive: bool, missing_ok: bool) -> None:
        try:
            await in_worker(_remove, path, await self._place(path), recursive, missing_ok)
        except RecursionError:  # shutil.rmtree recurses for each level
            await super().remove(path, recursive=recursive, missing_ok=missing_ok)

    async def exists(self, path: str) -> bool:
        return await in_worker(_exists, path, await self._place(path))


_CRLF_ENDS = re.compile(rb"\r(?:\n|\Z)")
"""Line ends; the last may lack its newline."""

# In worker threads. `given` is a path as the caller gave it, `place` is its absolute form.


@contextlib.contextmanager
def _in_target(verb: str, given: str) -> Iterator[None]:
    """Turn an OSError into the error for a file of a target."""
    try:
        yield
    except TerminalError:
        raise
    except OSError as error:
        raise target_error(error.errno or 0, verb, given, "local", "" if error.errno else str(error)) from error


def _path_of(place: str) -> Path:
    """Return the path. Raises NotADirectoryError for a form such as a trailing slash without a directory."""
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


def _write(given: str, place: str, data: bytes, mode: int | None, conditions: WriteConditions) -> bool:
    with _in_target("write", given), naming(Path(given), "write"):
        if conditions == ANY:
            return replace_file(Path(place), lambda file: file.write(data), mode)
        if conditions.guard:
            with _nearest_folder(os.path.dirname(place), conditions.guard) as (folder, missing):  # noqa: PTH120
                _check_guard(folder, (*missing, posixpath.basename(place)), conditions.guard)
        _check_vacant(place, conditions)
        real = os.path.realpath(place)
        with _folder_of(real, conditions.guard) as folder:
            name = posixpath.basename(real)
            _check_conditions(folder, name, conditions)
            return replace_in(folder, name, lambda file: file.write(data), mode)


def _check(given: str, place: str, conditions: WriteConditions) -> None:
    with _in_target("write", given), naming(Path(given), "write"):
        _check_vacant(place, conditions)
        for path in dict.fromkeys((place, os.path.realpath(place))):
            with _nearest_folder(os.path.dirname(path), conditions.guard) as (folder, missing):  # noqa: PTH120
                if conditions.guard:
                    _check_guard(folder, (*missing, posixpath.basename(path)), conditions.guard)
                if not missing and path == os.path.realpath(place):
                    _check_conditions(folder, posixpath.basename(path), conditions)


# With conditions: the directory is opened, then checked, and the file is written in the open directory.


@contextlib.contextmanager
def _nearest_folder(path: str, guard: WriteGuard | None) -> Iterator[tuple[int, list[str]]]:
    """Open a directory, or its nearest existing parent. Yields the missing names, too."""
    missing: list[str] = []
    while not os.path.isdir(path):  # noqa: PTH112
        if guard and (posixpath.basename(path) == ".." or os.path.islink(path)):  # noqa: PTH114
            raise WriteConditionError("refused", guard.refusal("lost"))
        if os.path.exists(path):  # noqa: PTH110
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        path, name = posixpath.split(path)
        missing.insert(0, name)
    with opened_folder(path) as folder:
        yield folder, [name for name in missing if name]


@contextlib.contextmanager
def _folder_of(place: str, guard: WriteGuard | None) -> Iterator[int]:
    """Open the directory of a file, creating missing ones, and check it against the guard."""
    parent, file = posixpath.split(place)
    with contextlib.ExitStack() as opened:
        folder, missing = opened.enter_context(_nearest_folder(parent, guard))
        while True:
            if guard:
                _check_guard(folder, (*missing, file), guard)
            if not missing:
                break
            with contextlib.suppress(FileExistsError):
                os.mkdir(missing[0], dir_fd=folder)
            folder = opened.enter_context(opened_folder(missing.pop(0), folder))
        yield folder


def _check_guard(folder: int, names: Sequence[str], guard: WriteGuard) -> None:
    """Raise WriteConditionError if the guard forbids a file, given by an open directory and the names below.

    The real parents of the open directory decide, not the path that led to it.
    """
    above, at = [os.fstat(folder)], "."
    while not above[1:] or not os.path.samestat(above[-1], above[-2]):
        at += "/.."
        above.append(os.stat(at, dir_fd=folder))
    own = _status_or_none("/".join(names), folder)

    def is_below(status: os.stat_result) -> bool:
        return any(os.path.samestat(status, each) for each in above)

    for number, path in enumerate(guard.denied, 1):
        top, below = os.path.expanduser(path), list[str]()  # noqa: PTH111
        while (found := _status_or_none(top)) is None:
            top, name = posixpath.split(top)
            below.insert(0, name)
        if below:
            is_denied = os.path.samestat(found, above[0]) and list(names[: len(below)]) == below
        else:
            is_denied = is_below(found) or (own is not None and os.path.samestat(found, own))
        if is_denied:
            raise WriteConditionError("refused", guard.refusal("denied", number))
    if guard.safe_root:
        root = _status_or_none(os.path.expanduser(guard.safe_root))  # noqa: PTH111
        if root is None or not stat.S_ISDIR(root.st_mode):
            raise WriteConditionError("refused", guard.refusal("rootless"))
        if not is_below(root):
            raise WriteConditionError("refused", guard.refusal("outside"))


def _status_or_none(path: str, folder: int | None = None) -> os.stat_result | None:
    try:
        return os.stat(path, dir_fd=folder)
    except OSError:
        return None


def _check_vacant(place: str, conditions: WriteConditions) -> None:
    if conditions.must_be_new and os.path.lexists(place):
        raise WriteConditionError("exists")


def _check_conditions(folder: int, name: str, conditions: WriteConditions) -> None:
    """Raise WriteConditionError if a file is not as expected."""
    limit = max(CRLF_LIMIT, len(conditions.expected or b"")) + 1
    try:
        check_regular(os.stat(name, dir_fd=folder))
    except FileNotFoundError:
        if conditions.expected is not None:
            raise WriteConditionError("changed") from None
        return
    if conditions.must_be_new:
        raise WriteConditionError("exists")
    if conditions.expected is None and not conditions.unless_crlf:
        return
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:  # unreadable, but perhaps writable
        return
    with open(descriptor, "rb") as file:
        first = file.readline(limit)
        if conditions.expected is None and not first.endswith(b"\r\n"):
            return
        data = first + file.read(limit - len(first))
    if conditions.expected is not None and data != conditions.expected:
        raise WriteConditionError("changed")
    if conditions.unless_crlf and len(data) <= CRLF_LIMIT and data.count(b"\n") == len(_CRLF_ENDS.findall(data)):
        raise WriteConditionError("crlf")


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
    link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None  # noqa: PTH115  # a Path would normalize it
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
