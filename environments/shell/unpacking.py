"""Taking an archive apart that came from a target: it is believed only so far, and written under one directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Protocol, Self, cast

from environments.atomic_file import PERMISSIONS, PIECE
from environments.errors import TerminalError
from environments.shell.dialect.directories import OWNER

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_HEADER = 1024 * 1024
"""Bytes that an archive may have to say about one member: Linux knows no path above 4 KB."""
_EXTENSIONS = frozenset(
    {
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
    }
)
_KINDS = _EXTENSIONS | frozenset(tarfile.SUPPORTED_TYPES) - {tarfile.GNUTYPE_SPARSE}
_NO_ARCHIVE = (tarfile.TarError, ValueError, OverflowError, RecursionError)
"""What `tarfile` raises when it is given anything else."""


class Readable(Protocol):
    """Where an archive is read from."""

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and none at the end."""


class _Member(tarfile.TarInfo):
    """A header of an archive that came from a target, which is believed only so far."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Take a header apart, see `TarInfo`. One that is none is an error, and not the archive's end."""
        try:
            member = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf == bytes(tarfile.BLOCKSIZE):
                raise
            raise tarfile.ReadError(str(error)) from error
        if member.type not in _KINDS or (member.type in _EXTENSIONS and member.size > LONGEST_HEADER):
            raise tarfile.ReadError(f"a member of type {member.type!r} and {member.size} bytes")
        return member


def unpack(source: Readable, local: Path, same: frozenset[str]) -> str:
    """Write the members of an archive under a directory, and nowhere else. Returns why it is no archive, if it is none.

    Args:
        source: Where it comes from.
        local: The directory, which is made.
        same: Files that need not be written.

    Raises:
        TerminalError: A member would be written outside of the directory.
        OSError: It could not be written.
    """
    try:
        with tarfile.open(fileobj=cast(IO[bytes], source), mode="r|", tarinfo=_Member) as archive:
            unpacking_into = _Unpacking(local, same)
            while member := archive.next():
                unpacking_into.take(archive, member)
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep them all
            unpacking_into.finish()
    except _NO_ARCHIVE as error:
        return str(error) or type(error).__name__
    return ""


class _Unpacking:
    """Writes what is in an archive.

    Args:
        top: The directory to write it under, which is made. One that is there keeps its permissions.
        same: Files that need not be written.
    """

    def __init__(self, top: Path, same: frozenset[str]) -> None:
        self._made = not top.is_dir()
        top.mkdir(mode=OWNER, parents=True, exist_ok=True)
        self._top = top.resolve()
        self._same = same
        self._folders: dict[Path, tarfile.TarInfo] = {}

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write one member; sockets, pipes and devices are left out."""
        path = self._place(member.name)
        unchanged = path.relative_to(self._top).as_posix() in self._same
        if member.isdir():
            self._make_folder(path, member)
        elif path == self._top:
            raise self._refusal(member.name)
        elif member.issparse():
            raise tarfile.ReadError(f"a sparse member {member.name!r}")  # a few bytes of one are any number of zeros
        elif member.isreg():
            content = archive.extractfile(member)
            assert content
            if unchanged:
                while content.read(PIECE):
                    pass
            else:
                _write_file(path, content, member)
        elif member.issym():
            with _replacing(path) as part:
                part.symlink_to(member.linkname)
                os.utime(part, (member.mtime, member.mtime), follow_symlinks=False)
        elif member.islnk() and not unchanged:
            self._link(path, member)

    def _place(self, name: str) -> Path:
        """Return where a member goes: neither its name nor a link on the way may lead it out."""
        parts = PurePosixPath(name).parts
        path = self._top.joinpath(*parts)
        above = [self._top.joinpath(*parts[:count]) for count in range(1, len(parts))]
        if name.startswith("/") or ".." in parts or "\0" in name or any(folder.is_symlink() for folder in above):
            raise self._refusal(name)
        return path

    def _refusal(self, name: str) -> TerminalError:
        return TerminalError(
            f"the target sent a member {name!r}, which would be written outside of {self._top}; it was refused"
        )

    def _make_folder(self, path: Path, member: tarfile.TarInfo) -> None:
        if path != self._top:
            if path.is_symlink() or (path.exists() and not path.is_dir()):
                path.unlink()
            path.mkdir(mode=OWNER, parents=True, exist_ok=True)
            mode = stat.S_IMODE(path.lstat().st_mode)
            if mode & OWNER != OWNER:
                path.chmod(mode | OWNER)
        if path != self._top or self._made:
            self._folders[path] = member

    def _link(self, path: Path, member: tarfile.TarInfo) -> None:
        source = self._place(member.linkname)
        if not stat.S_ISREG(source.lstat().st_mode):  # through a link it would be a file from outside
            raise self._refusal(member.linkname)
        with _replacing(path) as part:
            try:
                part.hardlink_to(source)
            except OSError:  # not every file system has them
                shutil.copy2(source, part)

    def finish(self) -> None:
        """Give the directories their permissions and times, now that nothing is written to them any more."""
        for path, member in sorted(self._folders.items(), key=lambda item: len(item[0].parts), reverse=True):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                os.utime(descriptor, (member.mtime, member.mtime))
                os.fchmod(descriptor, member.mode & PERMISSIONS)
            finally:
                os.close(descriptor)


def _write_file(path: Path, content: IO[bytes], member: tarfile.TarInfo) -> None:
    with _replacing(path) as part, open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fchmod(file.fileno(), member.mode & PERMISSIONS)
        os.utime(file.fileno(), (member.mtime, member.mtime))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Have something made beside its place, and move it there. What is there is replaced unless it is a directory."""
    path.parent.mkdir(mode=OWNER, parents=True, exist_ok=True)
    part = path.with_name(f".hermes-{os.urandom(6).hex()}")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
