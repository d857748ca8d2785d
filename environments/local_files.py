"""Files of this machine: replacing one in one step, and removing a directory, whatever is in it."""

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
"""The bits that travel with a file. Those that make a program run as another user do not."""
PIECE = 1024 * 1024
"""Bytes to read from a file at a time."""
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""The flags to open a directory with, to work in: one that may not be read can be opened, where the system lets."""
_IN_THE_WAY = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, FileExistsError)


def replace_file(path: Path, write: Callable[[BinaryIO], object], mode: int | Callable[[], int] | None = None) -> bool:
    """Write a file beside `path` and rename it into its place, and return whether it is new.

    A link is followed. The permissions and, where allowed, the owner of a file that is there already are kept.

    Args:
        path: The file; missing parent directories are made, unless it cannot be written. Nothing but a regular file
            is replaced, and that only if this user owns it or may write to it.
        write: Writes the contents.
        mode: Permission bits to give it, or what returns them once it is written; None keeps those that are
            there, or takes the usual ones.

    Raises:
        OSError: What is in the way at the path is said by one of the builtin errors that `naming` lets through.
        TerminalError: It could not be written for another reason.
    """
    with naming(path, "write"):
        path = Path(os.path.realpath(path))  # `Path.resolve` has an error of its own for links in a circle
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
    """Hold a directory open in the block, by a descriptor for the `dir_fd` of others. Raises what `os.open` does."""
    descriptor = os.open(path, FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def replace_in(
    folder: int, name: str, write: Callable[[BinaryIO], object], mode: int | Callable[[], int] | None = None
) -> bool:
    """Write a file of an open directory as `replace_file` does, and return whether it is new. A link is replaced."""
    old = _replaceable(folder, name)
    part = f".hermes-{os.urandom(6).hex()}"
    try:
        # It is made with the usual permissions, which cannot be asked for, and is private until it is whole.
        made = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666, dir_fd=folder)
        with open(made, "wb") as file:
            usual = stat.S_IMODE(os.fstat(made).st_mode)
            os.fchmod(made, 0o600)
            write(file)
            file.flush()
            if old:
                with contextlib.suppress(OSError):  # only root can give a file away
                    os.fchown(made, old.st_uid, old.st_gid)
                usual = stat.S_IMODE(old.st_mode)
            bits = mode() if callable(mode) else mode
            os.fchmod(made, (usual if bits is None else bits) & PERMISSIONS)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)  # a Path has no `dir_fd`
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        raise
    return old is None


def checked_destination(path: str | Path) -> Path:
    """Return where to write a file of this machine. Raises IsADirectoryError if that ends in a slash."""
    if str(path).endswith("/"):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    return Path(path)


def make_folders(folder: Path) -> None:
    """Make a directory, and those on the way to it that are missing, of which there may be any number.

    Raises:
        OSError: It could not be made. If something else is there or on the way, it is a NotADirectoryError.
    """
    missing = list(itertools.takewhile(lambda path: not path.is_dir(), (folder, *folder.parents)))
    try:
        for path in reversed(missing):
            path.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _replaceable(folder: int, name: str) -> os.stat_result | None:
    """Return what is there, None if nothing is; raises OSError if it is not to be replaced."""
    try:
        old = os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return None
    check_regular(old)
    if old.st_uid != os.geteuid() and not os.access(name, os.W_OK, dir_fd=folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return old


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read it. Anything else could have it wait for ever, or never end.

    Raises:
        OSError: What is in the way at the path is said by one of the builtin errors that `naming` lets through.
        TerminalError: It is no regular file, or cannot be read for another reason.
    """
    with naming(path, "read"):
        check_regular(path.stat())  # to open a pipe is noticed at its other end
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            check_regular(os.fstat(descriptor))
            return open(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise


def read_pieces(path: Path, file: BinaryIO, size: int = sys.maxsize) -> Iterator[bytes]:
    """Read a file to its end, and at most so many bytes.

    Raises:
        TerminalError: It could not be read.
    """
    try:
        while piece := file.read(min(size, PIECE)):
            size -= len(piece)
            yield piece
    except OSError as error:  # no question of its path any more
        raise TerminalError(f"cannot read {path}: {error.strerror or error}") from error


def check_regular(status: os.stat_result) -> None:
    """Raise OSError unless it is a regular file's."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")


@contextlib.contextmanager
def naming(path: Path, verb: Literal["read", "write"]) -> Iterator[None]:
    """Turn an error of the system into one that names the file.

    Raises:
        OSError: What is in the way at the path: FileNotFoundError, PermissionError, IsADirectoryError,
            NotADirectoryError or FileExistsError.
        TerminalError: Anything else; it says what could not be done to the file.
    """
    try:
        yield
    except TerminalError:  # of another file, which it names
        raise
    except OSError as error:
        raise named_error(error, path, verb) from error


def named_error(error: OSError, path: Path, verb: Literal["read", "write"]) -> OSError | TerminalError:
    """Return what to raise for an error of the system about a file of this machine, see `naming`."""
    if isinstance(error, _IN_THE_WAY):
        return OSError(error.errno, error.strerror, str(path))  # which is of the same class
    return TerminalError(f"cannot {verb} {path}: {error.strerror or error}")


def named_error_within(error: OSError, top: Path, verb: Literal["read", "write"]) -> OSError | TerminalError:
    """Return what to raise for an error about something in a directory: of that itself, what `named_error` does."""
    path = Path(os.fsdecode(error.filename2 or error.filename or top))
    if path in (top, *top.parents):
        return named_error(error, top, verb)
    return TerminalError(f"cannot {verb} {path}: {error.strerror or error}")


REMOVAL_TIMEOUT = 5.0
"""Seconds for a directory that takes more than Python's own way."""


def remove_tree(path: Path, timeout: float = REMOVAL_TIMEOUT) -> None:
    """Remove a directory with all that is in it, of any depth and whatever its permissions, as far as we may.

    Args:
        path: The directory. A symbolic link is removed, and what it points to is not.
        timeout: Seconds for one that is deep or locked.
    """
    import shutil  # which brings what packs archives, and most never remove a directory

    # shutil calls itself for each level, and so fails at a depth of some hundreds.
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
