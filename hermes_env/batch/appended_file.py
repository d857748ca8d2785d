"""A file of lines that is added to, and that says how much of it can be relied on."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from environments.errors import TerminalError

_READ_AND_ADD = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
"""A pipe's other end is not waited for."""


class AppendedFile:
    """A file of lines, of which one that was cut off by a crash is none.

    Args:
        path: The file. A missing one is made, for this user alone.

    Raises:
        TerminalError: It cannot be opened to read and write it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, _READ_AND_ADD, 0o600)
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.close(self._descriptor)
                raise OSError(errno.EINVAL, "it is no regular file")
        except OSError as error:
            raise TerminalError(f"cannot write {path}: {error.strerror}; give a file that can be written") from error
        self._size = 0
        """Bytes up to the end of the last line that is whole."""

    @property
    def descriptor(self) -> int:
        """The file, as the system knows it."""
        return self._descriptor

    @property
    def is_in_place(self) -> bool:
        """Whether its path still leads to it."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def lines(self) -> Iterator[bytes]:
        """Go through the lines without their newlines. Behind them, what was cut off is told by `torn`.

        Raises:
            TerminalError: It cannot be read.
        """
        self._size = 0
        try:
            with open(self.path, "rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        self._size += len(line)
                        yield line[:-1]
        except OSError as error:
            raise TerminalError(f"cannot read {self.path}: {error.strerror}") from error

    def torn(self) -> bytes:
        """Return what stands behind the last newline that `lines` came to."""
        return os.pread(self._descriptor, os.fstat(self._descriptor).st_size - self._size, self._size)

    def mend(self) -> None:
        """Take off what stands behind the last newline that `lines` came to.

        Raises:
            TerminalError: It cannot be written.
        """
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError as error:
            raise self._unwritable(error) from error

    def append(self, data: bytes) -> None:
        """Add whole lines. They outlive this process from then on, however it ends.

        Raises:
            TerminalError: They could not be written, as the disk is full. None of them is there then.
        """
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise self._unwritable(error) from error
        self._size += len(data)

    def sync(self) -> None:
        """Have the disk hold what was added, as far as that can be asked for, so that it outlives a loss of power."""
        with contextlib.suppress(OSError):
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close it. Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _unwritable(self, error: OSError) -> TerminalError:
        return TerminalError(
            f"cannot write {self.path}: {error.strerror}; what it holds stays. Make room, and run the "
            "batch again to go on"
        )
