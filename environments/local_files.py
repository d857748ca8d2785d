"""Files of this machine: atomic replacement, reading of regular files, and removal of directory trees."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from environments.errors import TerminalError

PERMISSIONS = 0o777
"""The permission bits that are copied with a file: without set-user-ID and set-group-ID."""
PIECE = 1024 * 1024
"""Bytes of one read."""
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Flags to open a directory for `dir_fd`. With O_PATH, an unreadable directory can be opened too."""
_IN_THE_WAY = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)


def replace_file(path: Path, write: Callable[[BinaryIO], object], mode: int | Callable[[], int] | None = None) -> bool:
    """Write a file beside `path` and rename it into place. Returns True if the file is new.

    Links are followed. Permissions and, if allowed, the owner of an existing file are kept.

    Args:
        path: The file. Missing parent directories are created, and removed again after a failure. An existing file must
            be regular, and owned or writable by this user.
        write: Writes the contents.
        mode: Permission bits, or a function returning them after the write; None keeps the existing bits, or uses the
            default.

    Raises:
        OSError: An obstacle at the path, as one of the builtin errors of `naming`.
        TerminalError: The write failed for another reason.
    """
    with naming(path, "write"):
        path = Path(os.path.realpath(path))  # `Path.resolve` raises a different error for a loop of links
        new = [folder for folder in path.parents if not folder.exists()]
        make_folders(path.parent)
        try:
            with opened_folder(path.parent) as folder:
                return replace_in(folder, path.name, write, mode)
        except BaseException:
            for each in new:
                with contextlib.suppress(OSError):
                    each.rmdir()
            raise


@contextlib.contextmanager
def opened_folder(path: str | Path, folder: int | None = None) -> Iterator[int]:
    """Open a directory for the block; yields a file descriptor for `dir_fd`. Raises the errors of `os.open`."""
    descriptor = os.open(path, FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def replace_in(
    folder: int, name: str, write: Callable[[BinaryIO], object], mode: int | Callable[[], int] | None = None
) -> bool:
    """Write a file in an open directory, see `replace_file`. A link is replaced. Returns True if the file is new."""
    old = _replaceable(folder, name)
    part = f".hermes-{os.urandom(6).hex()}"
    try:
        # Created with default permissions to learn the umask, then private until complete.
        made = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
        with open(made, "wb") as file:
            usual = stat.S_IMODE(os.fstat(made).st_mode)
            os.fchmod(made, 0o600)
            write(file)
            file.flush()
            if old:
                with contextlib.suppress(OSError):  # only root can change the owner
                    os.fchown(made, old.st_uid, old.st_gid)
                usual = stat.S_IMODE(old.st_mode)
            bits = mode() if callable(mode) else mode
            os.fchmod(made, (usual if bits is None else bits) & PERMISSIONS)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)  # Path has no `dir_fd`
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
    return old is None


def checked_destination(path: str | Path) -> Path:
    """Return the path of a local file to write. Raises IsADirectoryError for a trailing slash."""
    if str(path).endswith("/"):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return Path(path)


def make_folders(folder: Path) -> None:
    """Create a directory with any number of missing parents.

    Raises:
        OSError: The creation failed; a NotADirectoryError if another kind of file is in the way.
    """
    missing = list(itertools.takewhile(lambda path: not path.is_dir(), (folder, *folder.parents)))
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _replaceable(folder: int, name: str) -> os.stat_result | None:
    """Return the status of an existing file, None without one. Raises OSError if it must not be replaced."""
    try:
        old = os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    check_regular(old)
    if old.st_uid != os.geteuid() and not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Other kinds could block or never end.

    Raises:
        OSError: An obstacle at the path, as one of the builtin errors of `naming`.
        TerminalError: The path is not a regular file, or reading failed for another reason.
    """
    with naming(path, "read"):
        check_regular(path.stat())  # opening a pipe would be visible at its other end
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            check_regular(os.fstat(descriptor))
            return open(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise


def read_pieces(path: Path, file: BinaryIO, size: int = sys.maxsize) -> Iterator[bytes]:
    """Read a file in pieces, up to `size` bytes.

    Raises:
        TerminalError: Reading failed.
    """
    try:
        while piece := file.read(min(size, PIECE)):
            size -= len(piece)
            yield piece
    except OSError as error:  # not an error of the path
        raise TerminalError(f"cannot read {path}: {error.strerror or error}") from error


def check_regular(status: os.stat_result) -> None:
    """Raise OSError unless the status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


@contextlib.contextmanager
def naming(path: Path, verb: Literal["read", "write"]) -> Iterator[None]:
    """Convert an OSError of the block into an error with the path.

    Raises:
        OSError: An obstacle at the path: FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError or
            FileExistsError.
        TerminalError: Any other failure, with verb and path in the message.
    """
    try:
        yield
    except TerminalError:  # names another file
        raise
    except OSError as error:
        raise named_error(error, path, verb) from error


def named_error(error: OSError, path: Path, verb: Literal["read", "write"]) -> OSError | TerminalError:
    """Return the error to raise for an OSError of a local file, see `naming`."""
    if isinstance(error, _IN_THE_WAY):
        return OSError(error.errno, error.strerror, str(path))  # becomes the same builtin class
    return TerminalError(f"cannot {verb} {path}: {error.strerror or error}")


def named_error_within(error: OSError, top: Path, verb: Literal["read", "write"]) -> OSError | TerminalError:
    """Return the error to raise for an OSError inside of a directory; for the directory itself see `named_error`."""
    path = Path(os.fsdecode(error.filename2 or error.filename or top))
    if path in (top, *top.parents):
        return named_error(error, top, verb)
    return TerminalError(f"cannot {verb} {path}: {error.strerror or error}")


REMOVAL_TIMEOUT = 5.0
"""Seconds for a directory that Python's own removal cannot handle."""


def remove_tree(path: Path, timeout: float = REMOVAL_TIMEOUT) -> None:
    """Remove a directory tree of any depth and with any permissions, as far as possible.

    Args:
        path: The directory. For a symbolic link, only the link is removed.
        timeout: Seconds for a deep or locked tree.
    """
    import shutil  # imports archive modules, and is rarely needed

    # shutil recurses for each level, and fails at a depth of some hundreds.
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if not path.exists() and not path.is_symlink():
        return
    deadline = time.monotonic() + timeout
    remove = ["rm", "-rf", "--", str(path)]
    for command in (remove, ["chmod", "-R", "u+rwX", "--", str(path)], remove):
        if path.exists():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                left = max(0.1, deadline - time.monotonic())
                subprocess.run(command, timeout=left, capture_output=True, check=False)
