"""Directories as `tar` streams: packed locally, and unpacked from an untrusted target."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, BinaryIO, Self, cast

from environments.errors import TerminalError
from environments.local_files import PERMISSIONS, PIECE, named_error_within
from environments.shell.dialect.trees import OWNER

if TYPE_CHECKING:
    from _typeshed import SupportsRead

Files = Mapping[str, tuple[int, int]]
"""Size and modification time, in whole seconds, of regular files by name."""
LONGEST_HEADER = 32 * 1024
"""Bytes for the headers of one member, with two paths of at most 4 KB."""


def whole_seconds(status: os.stat_result) -> int:
    """Return the modification time. Every tar stores it to the second."""
    return status.st_mtime_ns // 1_000_000_000


def list_files(top: Path) -> Files:
    """Return the regular files in a directory; none if unreadable."""
    with contextlib.suppress(OSError):
        return {name: (s.st_size, whole_seconds(s)) for _, name, s in _walk(top) if stat.S_ISREG(s.st_mode)}
    return {}


def list_directories(top: Path) -> dict[str, int]:
    """Return the permissions of the directories in a directory by name, parents first.

    Raises:
        TerminalError: A directory could not be read.
    """
    with _reading(top):
        return {name: s.st_mode & PERMISSIONS for _, name, s in _walk(top) if stat.S_ISDIR(s.st_mode)}


def _walk(top: Path, wanted: Mapping[str, int] | None = None) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield path, name and status of all entries in a directory, parents first. Links are not followed.

    Unwanted directories are skipped.
    """
    names = [entry.name for entry in os.scandir(top)]
    while names:
        name = names.pop()
        path = f"{top}/{name}"
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            status = os.lstat(path)
            is_directory = stat.S_ISDIR(status.st_mode)
            if not is_directory or wanted is None or name in wanted:
                yield path, name, status
                if is_directory:
                    names += [f"{name}/{entry.name}" for entry in os.scandir(path)]


@contextlib.contextmanager
def _reading(top: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise named_error_within(error, top, "read") from error


def pack(
    top: Path,
    directories: Mapping[str, int],
    unchanged: Files,
    begin: Callable[[tuple[str, int]], object],
    send: Callable[[bytes], object],
) -> None:
    """Send an archive of the contents of a directory.

    The format is GNU's, with names as bytes. In POSIX's format names are UTF-8, converted by tar to the locale's
    encoding.

    Args:
        top: The directory.
        directories: Directories to include, parents first. Others are left out: the target may be making them.
        unchanged: Files to leave out if they still have this size and time.
        begin: Called with name and size of each file before its contents are sent.
        send: Called with each piece of the archive.

    Raises:
        TerminalError: A file or directory could not be read.
    """
    writer = _PieceWriter(send)
    with tarfile.open(fileobj=cast(IO[bytes], writer), mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for member, file in _members(top, directories, unchanged):
            if file:
                begin((member.name, member.size))
            try:
                archive.addfile(member, file)
            except (TerminalError, BrokenPipeError):  # raised by `send`
                raise
            except OSError as error:
                why = error.strerror or "the file became shorter during the read"
                raise TerminalError(f"cannot read {top / member.name}: {why}") from error
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps them
    writer.flush()


class _PieceWriter:
    """A file object that joins small writes: each piece costs a round trip."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= PIECE:
            self.flush()

    def flush(self) -> None:
        piece = bytes(self._buffer)
        self._buffer.clear()  # before an error: tarfile still writes its own buffer afterwards
        self._send(piece)


def _members(
    top: Path, directories: Mapping[str, int], unchanged: Files
) -> Iterator[tuple[tarfile.TarInfo, BinaryIO | None]]:
    """Yield the members of an archive, regular files with their contents.

    A directory is written before its contents, with write permission, and again at the end: some tars set permissions
    at once and lose its time.
    """
    first_names: dict[tuple[int, int], str] = {}
    with _reading(top):
        for path, name, status in _walk(top, directories):
            inode = status.st_dev, status.st_ino
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                if stat.S_ISDIR(status.st_mode):
                    yield _member(name, status, tarfile.DIRTYPE, mode=OWNER), None
                elif stat.S_ISLNK(status.st_mode):
                    yield _member(name, status, tarfile.SYMTYPE, os.readlink(path)), None  # noqa: PTH115 - exact bytes
                elif not stat.S_ISREG(status.st_mode) or unchanged.get(name) == (status.st_size, whole_seconds(status)):
                    continue
                elif status.st_nlink > 1 and (first := first_names.setdefault(inode, name)) != name:
                    yield _member(name, status, tarfile.LNKTYPE, first), None
                else:
                    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                        now = os.fstat(file.fileno())
                        if not stat.S_ISREG(now.st_mode):
                            raise TerminalError(f"cannot read {path}: it is no longer a regular file")
                        yield _member(name, now, tarfile.REGTYPE, size=now.st_size), file
        for name in reversed(list(directories)):
            with contextlib.suppress(FileNotFoundError):
                yield _member(name, (top / name).lstat(), tarfile.DIRTYPE), None


def _member(
    name: str, status: os.stat_result, kind: bytes, linkname: str = "", *, size: int = 0, mode: int = 0
) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, linkname, size
    member.mode = status.st_mode & PERMISSIONS | mode
    member.mtime = whole_seconds(status)
    return member


def unpack(source: SupportsRead[bytes], local: Path, same: frozenset[str]) -> str:
    """Write the members of an archive under a directory, and return the defect of an invalid archive, or empty.

    `tarfile.data_filter` would change permissions and refuse links to the outside. Here both are kept, and no member is
    written through a link.

    Args:
        source: The stream.
        local: The directory, made if missing.
        same: Files to leave out.

    Raises:
        TerminalError: A member would be written outside of the directory.
        OSError: A member could not be written.
    """
    reader = _LimitedReader(source)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], reader), mode="r|", tarinfo=_Header) as archive:
            unpacker = _Unpacker(archive, local)
            while member := archive.next():
                reader.left = LONGEST_HEADER + archive.offset - member.offset_data
                unpacker.write(member, same)
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps them
            unpacker.finish()
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    return ""


class _LimitedReader:
    """A file object to read an archive from. An oversized header and a missing end are errors."""

    def __init__(self, source: SupportsRead[bytes]) -> None:
        self._source = source
        self.left = LONGEST_HEADER

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.left -= len(data)
        if not data or self.left < 0:
            raise tarfile.ReadError("a header is too long" if data else "unexpected end of data")
        return data


class _Header(tarfile.TarInfo):
    """A header of an archive. `tarfile` takes a malformed header for the end; here it is an error."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(str(error)) from error
            raise


class _Unpacker:
    """Writes the members of an archive under a directory. An existing directory keeps its own permissions."""

    def __init__(self, archive: tarfile.TarFile, top: Path) -> None:
        self._archive = archive
        self._made = not top.is_dir()
        top.mkdir(mode=OWNER, parents=True, exist_ok=True)
        self._top = top.resolve()
        self._directories: dict[Path, tuple[int, float]] = {}

    def write(self, member: tarfile.TarInfo, same: frozenset[str]) -> None:
        """Write a member. Sockets, pipes and devices are left out."""
        path = self._path(member.name)
        if member.isdir():
            self._make_directory(path, member)
        elif path == self._top:
            raise self._refusal(member.name)
        elif member.issparse() or member.type not in tarfile.SUPPORTED_TYPES:  # a sparse member can be of any size
            raise tarfile.ReadError(f"a member {member.name!r} that is sparse or of type {member.type!r}")
        elif not member.isdev() and path.relative_to(self._top).as_posix() not in same:
            self._write_file(path, member)

    def _path(self, name: str) -> Path:
        """Return the path of a member. Neither the name nor a link in the path may lead out."""
        inner = PurePosixPath(name)
        if inner.is_absolute() or ".." in inner.parts or any((self._top / up).is_symlink() for up in inner.parents):
            raise self._refusal(name)
        return self._top / inner

    def _refusal(self, name: str) -> TerminalError:
        return TerminalError(
            f"the target sent a member {name!r}, which would be written outside of {self._top}; it was refused"
        )

    def _make_directory(self, path: Path, member: tarfile.TarInfo) -> None:
        if path != self._top:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            path.mkdir(mode=OWNER, parents=True, exist_ok=True)
            path.chmod(stat.S_IMODE(path.stat().st_mode) | OWNER)
        if path != self._top or self._made:
            self._directories[path] = member.mode, member.mtime

    def _write_file(self, path: Path, member: tarfile.TarInfo) -> None:
        """Write a file or a link beside its place and rename it, unless a directory is in the way."""
        path.parent.mkdir(mode=OWNER, parents=True, exist_ok=True)
        part = path.with_name(f".hermes-{os.urandom(6).hex()}")
        try:
            if member.issym():
                part.symlink_to(member.linkname)
                os.utime(part, (member.mtime, member.mtime), follow_symlinks=False)
            elif member.islnk():
                self._link(part, member.linkname)
            else:
                part.touch(0o600, exist_ok=False)
                self._archive.makefile(member, part)
                _set_attributes(part, member.mode, member.mtime)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def _link(self, part: Path, linkname: str) -> None:
        source = self._path(linkname)
        if not stat.S_ISREG(source.lstat().st_mode):  # a hard link through a link could be to a file outside
            raise self._refusal(linkname)
        try:
            part.hardlink_to(source)
        except OSError:  # the file system has no hard links
            shutil.copy2(source, part)

    def finish(self) -> None:
        """Set permissions and times of directories, children first."""
        for path, (mode, mtime) in sorted(self._directories.items(), reverse=True):
            _set_attributes(path, mode, mtime)


def _set_attributes(path: Path, mode: int, mtime: float) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.utime(descriptor, (mtime, mtime))
        os.fchmod(descriptor, mode & PERMISSIONS)
    finally:
        os.close(descriptor)
