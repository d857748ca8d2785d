"""Replacing a file of this machine in one step, with errors that say what to do."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from environments.errors import TerminalError


def replace_file(path: Path, write: Callable[[BinaryIO], object], mode: int | None = None) -> None:
    """Write a file beside `path` and rename it into its place, so that nobody sees half of it.

    A link is followed. The mode and, where allowed, the owner of a file that is there already are kept.

    Args:
        path: The file; missing parent directories are made.
        write: Writes the contents.
        mode: Permission bits to give it; None keeps those that are there, or takes the usual ones.

    Raises:
        TerminalError: It could not be written.
    """
    with naming(path, "write"):
        path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        part = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}")
        try:
            with open(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                _take_after(path, file, mode)
                write(file)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _take_after(path: Path, file: BinaryIO, mode: int | None) -> None:
    """Give a new file the mode and owner of the one it replaces."""
    try:
        old = path.stat()
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(file.fileno(), 0o666 & ~umask if mode is None else mode)
        return
    with contextlib.suppress(PermissionError):
        os.fchown(file.fileno(), old.st_uid, old.st_gid)
    os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode) if mode is None else mode)


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
