"""Moving whole directories as one stream of `tar`."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tarfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Self, cast

from environments.atomic_file import PERMISSIONS, PIECE
from environments.base import Background, Process
from environments.errors import TerminalError
from environments.shell.dialect.directories import NO_TAR, OWNER, listing, packing, unpacking
from environments.shell.dialect.files import NO_SUCH_FILE
from environments.shell.files import BytesSink, Runner, call_at
from environments.shell.output import UnreadOutput
from environments.sink import Channel

WAITING = 4 * 1024 * 1024
"""Bytes of a stream that may wait to be unpacked."""
LONGEST_HEADER = 1024 * 1024
"""Bytes that an archive may have to say about one member: Linux knows no path above 4 KB."""
LONGEST_END = 16 * 1024 * 1024
"""Bytes that may follow on the end of an archive. tar fills up its last block."""
LONGEST_REASON = 4096
"""Bytes of what a tar says that are told."""
_LOOK_AGAIN = 0.05
_SIMPLE = re.compile(r"[^\s\\*?\[]+")
"""Names that are themselves in whatever list of names a tar takes."""
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

Files = Mapping[str, tuple[int, int]]
"""Size, and time of change in whole seconds, of regular files by name."""


class Directories:
    """Directories of a target, by way of its shells and its `tar`.

    Args:
        runner: Runs commands there.
        backend: The backend's name, for errors.
    """

    def __init__(self, runner: Runner, backend: str) -> None:
        self._runner = runner
        self._backend = backend

    def put(self, local: Path, remote: str, skip_unchanged: bool) -> None:
        """Copy a directory from here, see `BaseEnvironment.put_dir`."""
        if not local.is_dir():
            raise NotADirectoryError(20, "no such directory", str(local))
        there = self._listed(remote) if skip_unchanged else {}
        top, folders = local.stat(), _folders(local)
        text = unpacking(remote, folders, top.st_mode & PERMISSIONS, _seconds(top))
        process = self._runner.start(call_at(remote, text), Background(sink=UnreadOutput(LONGEST_REASON)))
        whole = False
        try:
            with contextlib.suppress(BrokenPipeError):  # its exit code and its words say why
                for piece in _joined(_archive(local, folders, there)):
                    process.write(piece)
                whole = True
            process.close_stdin()
            code = process.wait() or 0
        finally:
            process.kill()
        self._raise_for("write", remote, code, process.read())
        if not whole:
            raise TerminalError(f"cannot write {remote} on backend {self._backend!r}: its tar ended before the archive")

    def get(self, remote: str, local: Path, skip_unchanged: bool) -> None:
        """Copy a directory to here, see `BaseEnvironment.get_dir`."""
        unchanged = self._listed(remote).items() & _files(local).items() if skip_unchanged else ()
        same = frozenset(name for name, _ in unchanged)
        text = packing(remote, [name for name in same if _SIMPLE.fullmatch(name)])
        pipe = _Pipe()
        process = self._runner.start(call_at(remote, text), Background("none", sink=pipe))
        pipe.writer = process
        try:
            problem = _unpack(pipe, local, same)
            if pipe.drain(LONGEST_END):
                code = process.wait() or 0
            else:
                code, problem = 0, problem or "it goes on behind its end"
        except OSError as error:
            raise TerminalError(f"cannot write to {local}: {error}") from error
        finally:
            pipe.give_up()
            process.kill()
        self._raise_for("read", remote, code, pipe.words)
        if problem:
            raise TerminalError(
                f"cannot read {remote} on backend {self._backend!r}: what came is no archive: {problem}"
            )

    def _listed(self, remote: str) -> Files:
        """Return those regular files of a directory that can be told; of one that is not there, none."""
        data = bytearray()
        self._runner.run_into(call_at(remote, listing(remote)), BytesSink(data.extend))
        found = {}
        for line in os.fsdecode(bytes(data)).split("\n"):
            size, _, rest = line.partition(" ")
            time, _, name = rest.partition(" ./")
            with contextlib.suppress(ValueError):
                found[name] = (int(size), int(time))
        return found

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        if exit_code == NO_TAR:
            raise TerminalError(
                f"backend {self._backend!r}: the target has no `tar`, which moves directories; install it there"
            )
        if exit_code == NO_SUCH_FILE:
            raise FileNotFoundError(2, f"no such directory on backend {self._backend!r}", path)
        if exit_code != 0:
            reason = why.strip() or f"exit code {exit_code}"
            raise TerminalError(f"cannot {verb} {path} on backend {self._backend!r}: {reason}")


def _seconds(status: os.stat_result) -> int:
    return status.st_mtime_ns // 1_000_000_000


def _files(top: Path) -> Files:
    """Return the regular files of a directory that can be told; of one that is not there, none."""
    try:
        walk = list(_walk(top, _folders(top)))
    except (OSError, TerminalError):
        return {}
    return {name: (status.st_size, _seconds(status)) for _, name, status in walk if stat.S_ISREG(status.st_mode)}


# Packing.


def _folders(top: Path) -> dict[str, int]:
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
        raise TerminalError(f"cannot read {error.filename or top}: {error.strerror or error}") from error


def _archive(top: Path, folders: Mapping[str, int], there: Files) -> Iterator[bytes]:
    """Return an archive of what is in a directory, but not of that directory itself.

    A directory comes before what is in it, such that this can be written, and once more at the end, as some tars
    change its time, and its permissions too early.

    Args:
        top: The directory.
        folders: Directories in it; others have been made meanwhile, maybe by the one who reads this.
        there: Files that need not come again.

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
                elif stat.S_ISREG(status.st_mode) and there.get(name) != (status.st_size, _seconds(status)):
                    inode = status.st_dev, status.st_ino
                    if status.st_nlink > 1 and (first := first_names.setdefault(inode, name)) != name:
                        yield _header(name, status, tarfile.LNKTYPE, target=first)
                    else:
                        yield from _packed_file(path, name)
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


def _packed_file(path: Path, name: str) -> Iterator[bytes]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise TerminalError(f"cannot read {path}: it became something else")
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
    member.mtime = _seconds(status)
    return member.tobuf(tarfile.GNU_FORMAT)


def _joined(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Join what is small, as each piece costs a way to the target."""
    buffer = bytearray()
    for part in parts:
        buffer += part
        if len(buffer) >= PIECE:
            yield bytes(buffer)
            buffer.clear()
    if buffer:
        yield bytes(buffer)


# Unpacking.


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


def _unpack(pipe: _Pipe, local: Path, same: frozenset[str]) -> str:
    """Write the members of an archive under a directory, and nowhere else. Returns why it is no archive, if it is none.

    Args:
        pipe: Where it comes from.
        local: The directory, which is made.
        same: Files that need not be written.

    Raises:
        TerminalError: A member would be written outside of the directory.
        OSError: It could not be written.
    """
    try:
        with tarfile.open(fileobj=cast(IO[bytes], pipe), mode="r|", tarinfo=_Member) as archive:
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


class _Pipe:
    """Takes the output of a process in its thread, and is read as a file in another; as much as fits waits in it."""

    separate = True

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pieces: deque[memoryview] = deque()
        self._size = 0
        self._error = BytesSink(lambda _: None)
        self._given_up = False
        self.writer: Process | None = None

    @property
    def words(self) -> str:
        """What the process said on standard error."""
        return self._error.error.text().text

    def add(self, channel: Channel, data: bytes) -> None:
        """Take output, and wait while there is no room."""
        if channel is Channel.STDERR:
            self._error.add(channel, data)
            return
        with self._changed:
            self._changed.wait_for(lambda: self._size < WAITING or self._given_up)
            if not self._given_up:
                self._pieces.append(memoryview(data))
                self._size += len(data)
                self._changed.notify_all()

    def freeze(self) -> None:
        """Nothing is ended that is still wanted."""

    def give_up(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def read(self, size: int) -> bytes:
        """Return at most so many bytes, and none at the end."""
        while True:
            ended = self.writer is None or not self.writer.running  # asked before: all that it wrote is then here
            with self._changed:
                if not self._pieces and not ended:
                    self._changed.wait(_LOOK_AGAIN)
                if self._pieces:
                    return self._take(size)
                if ended:
                    return b""

    def _take(self, size: int) -> bytes:
        piece = self._pieces.popleft()
        if len(piece) > size:
            self._pieces.appendleft(piece[size:])
        data = bytes(piece[:size])
        self._size -= len(data)
        self._changed.notify_all()
        return data

    def drain(self, limit: int) -> bool:
        """Read to the end, and return whether it came within so many bytes."""
        while limit > 0 and (data := self.read(PIECE)):
            limit -= len(data)
        return limit > 0
