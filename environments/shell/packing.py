"""Making an archive of a directory here, piece by piece."""

from __future__ import annotations

import contextlib
import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from environments.atomic_file import PERMISSIONS, PIECE, told_within
from environments.errors import TerminalError
from environments.shell.dialect.directories import OWNER

Files = Mapping[str, tuple[int, int]]
"""Size, and time of change in whole seconds, of regular files by name."""


def whole_seconds(status: os.stat_result) -> int:
    """Return when something was changed: all tars know it to the second."""
    return status.st_mtime_ns // 1_000_000_000


def files_in(top: Path) -> Files:
    """Return the regular files of a directory that can be told; of one that is not there, none."""
    try:
        walk = list(_walk(top, folders_in(top)))
    except (OSError, TerminalError):
        return {}
    return {name: (status.st_size, whole_seconds(status)) for _, name, status in walk if stat.S_ISREG(status.st_mode)}


def folders_in(top: Path) -> dict[str, int]:
    """Return the permissions of the directories in a directory by their names, each behind the one it is in.

    Raises:
        TerminalError: One of them could not be read.
    """
    found = {}

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # removed meanwhile
            raise error

    with _reading(top):
        for folder, *_ in os.walk(top, onerror=refuse):
            with contextlib.suppress(FileNotFoundError):
                found[Path(folder).relative_to(top).as_posix()] = Path(folder).lstat().st_mode & PERMISSIONS
    found.pop(".", None)
    return found


@contextlib.contextmanager
def _reading(top: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise told_within(error, top, "read") from error


class Begun(NamedTuple):
    """A regular file that is being packed."""

    name: str
    size: int


def archive(
    top: Path, folders: Mapping[str, int], there: Files, begin: Callable[[Begun], object] = lambda _: None
) -> Iterator[bytes]:
    """Return an archive of what is in a directory, but not of that directory itself.

    A directory comes before what is in it, such that this can be written, and once more at the end, as some tars
    change its time, and its permissions too early.

    Args:
        top: The directory.
        folders: Directories in it; others have been made meanwhile, maybe by the one who reads this.
        there: Files that need not come again.
        begin: Told of each file that comes, before it does.

    Raises:
        TerminalError: Something could not be read.
    """
    last: list[bytes] = []
    first_names: dict[tuple[int, int], str] = {}
    with _reading(top):
        for path, name, status in _walk(top, folders):
            if stat.S_ISDIR(status.st_mode):
                last.append(_header(name, status, tarfile.DIRTYPE))
                yield _header(name, status, tarfile.DIRTYPE, mode=OWNER)
                continue
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if stat.S_ISLNK(status.st_mode):
                    text = os.readlink(path)  # noqa: PTH115 - a Path would not be the same bytes
                    yield _header(name, status, tarfile.SYMTYPE, target=text)
                elif stat.S_ISREG(status.st_mode) and there.get(name) != (status.st_size, whole_seconds(status)):
                    inode = status.st_dev, status.st_ino
                    if status.st_nlink > 1 and (first := first_names.setdefault(inode, name)) != name:
                        yield _header(name, status, tarfile.LNKTYPE, target=first)
                    else:
                        yield from _packed_file(path, name, begin)
    yield from reversed(last)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _walk(top: Path, folders: Mapping[str, int]) -> Iterator[tuple[Path, str, os.stat_result]]:
    """Go through what is in a directory, each directory directly before what is in it, no links followed."""
    waiting = [(path, path.name) for path in sorted(top.iterdir(), reverse=True)]
    while waiting:
        path, name = waiting.pop()
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            status = path.lstat()
            is_folder = stat.S_ISDIR(status.st_mode)
            if not is_folder or name in folders:
                yield path, name, status
            if is_folder and name in folders:
                waiting += [(child, f"{name}/{child.name}") for child in sorted(path.iterdir(), reverse=True)]


def _packed_file(path: Path, name: str, begin: Callable[[Begun], object]) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise TerminalError(f"cannot read {path}: it became something else")
        begin(Begun(name, status.st_size))
        yield _header(name, status, tarfile.REGTYPE, size=status.st_size)
        left = status.st_size
        while left:
            data = file.read(min(left, PIECE))
            if not data:
                raise TerminalError(f"cannot read {path}: it became shorter while it was read")
            left -= len(data)
            yield data
    yield bytes(-status.st_size % tarfile.BLOCKSIZE)


def _header(name: str, status: os.stat_result, kind: bytes, *, target: str = "", size: int = 0, mode: int = 0) -> bytes:
    """Return what stands before a member.

    It is in GNU's format, which has names as the bytes they are: some tars pass over what POSIX's has instead.
    """
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    member.size = size
    member.mode = status.st_mode & PERMISSIONS | mode
    member.mtime = whole_seconds(status)
    return member.tobuf(tarfile.GNU_FORMAT)


def joined(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join what is small, as each piece costs a way to the target."""
    buffer = bytearray()
    for part in parts:
        buffer += part
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)
