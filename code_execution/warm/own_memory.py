"""What `ps` and /proc say of a process that was forked: its own arguments and variables, and not its parent's.

They lie where the kernel put them when the program was started, and are overwritten there.
"""

from __future__ import annotations

import os


class OwnMemory:
    """The memory that holds them.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # Fields 48 to 51 of all, of which these are those from the third on.
        self._arguments, arguments_end, self._variables, variables_end = map(int, fields[45:49])
        self._sizes = (arguments_end - self._arguments, variables_end - self._variables)
        if min(self._sizes) <= 0:
            raise OSError("the kernel does not say where they are")
        self._write(self._variables, self._read(self._variables, 1))

    def show(self, arguments: list[bytes], variables: list[bytes]) -> None:
        """Show other ones, as many as there is room for."""
        places = ((self._arguments, self._sizes[0], arguments), (self._variables, self._sizes[1], variables))
        for start, size, values in places:
            text = b""
            for value in values:
                if len(text) + len(value) < size:
                    text += value + b"\0"
            self._write(start, text.ljust(size, b"\0"))

    @staticmethod
    def _read(start: int, size: int) -> bytes:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, size, start)
        finally:
            os.close(memory)

    @staticmethod
    def _write(start: int, data: bytes) -> None:
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.pwrite(memory, data, start) != len(data):
                raise OSError("not all of it could be written")
        finally:
            os.close(memory)
