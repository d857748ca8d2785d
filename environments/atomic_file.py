"""Replacing a file of this machine in one step, with errors that say what to do."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from environments.errors import TerminalError

PERMISSIONS = 0o777
"""The bits that travel with a file. Those that make a program run as another user do not."""
PIECE = 1024 * 1024
"""Bytes to read from a file at a time."""


def replace_file(path: Path, write: Callable[[BinaryIO], object], mode: int | Callable[[], int] | None = None) -> None:
    """Write a file beside `path` and rename it into its place, so that nobody sees half of it.

    A link is followed. The permissions and, where allowed, the owner of a file that is there already are kept.

    Args:
        path: The file; missing parent directories are made, unless it cannot be written. Nothing but a regular file
            is replaced, and that only if this user owns it or may write to it.
        write: Writes the contents.
        mode: Permission bits to give it, or what returns them once it is written; None keeps those that are
            there, or takes the usual ones.

    Raises:
        TerminalError: It could not be written.
    """
    with naming(path, "write"):
        path = Path(os.path.realpath(path))  # `Path.resolve` has an error of its own for links in a circle
        new = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        old = _replaceable(path)
        part = path.with_name(f".hermes-{os.urandom(6).hex()}")
        try:
            # It is made with the usual permissions, which cannot be asked for, and is private until it is whole.
            with open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
                usual = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                os.fchmod(file.fileno(), 0o600)
                write(file)
                file.flush()
                if old:
                    with contextlib.suppress(OSError):  # only root can give a file away
                        os.fchown(file.fileno(), old.st_uid, old.st_gid)
                    usual = stat.S_IMODE(old.st_mode)
                bits = mode() if callable(mode) else mode
                os.fchmod(file.fileno(), (usual if bits is None else bits) & PERMISSIONS)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            for folder in new:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


def _replaceable(path: Path) -> os.stat_result | None:
    """Return what is there, None if nothing is; raises OSError if it is not to be replaced."""
    try:
        old = path.stat()
    except FileNotFoundError:
        return None
    _check_regular(old)
    if old.st_uid != os.geteuid() and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied: it is another user's")
    return old


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read it. Anything else could have it wait for ever, or never end.

    Raises:
        FileNotFoundError: No such file.
        TerminalError: It is something else, or cannot be read.
    """
    with naming(path, "read"):
        _check_regular(path.stat())  # to open a pipe is noticed at its other end
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(os.fstat(descriptor))
            return open(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise


def read_pieces(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Read a file to its end.

    Raises:
        TerminalError: It could not be read.
    """
    with naming(path, "read"):
        yield from iter(lambda: file.read(PIECE), b"")


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(21, "it is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(22, "it is not a regular file")


@contextlib.contextmanager
def naming(path: Path, verb: Literal["read", "write"]) -> Iterator[None]:
    """Turn an error of the system into one that names the file, and says what could not be done to it.

    Raises:
        FileNotFoundError: There is nothing to read.
        TerminalError: Anything else.
    """
    try:
        yield
    except OSError as error:
        if verb == "read" and isinstance(error, FileNotFoundError):
            raise FileNotFoundError(error.errno, "no such file", str(path)) from None
        raise TerminalError(f"cannot {verb} {path}: {error.strerror or error}") from error
