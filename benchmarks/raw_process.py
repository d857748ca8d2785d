"""The raw cost of an exchange with a process: a line in each direction, over pipes."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import IO, Protocol, Self

NOTHING = b"true; echo x\n"
"""Shell text: an empty command, and a line of output."""


class RawProcess(Protocol):
    """A process that answers each line with a line."""

    def round_trip(self, line: bytes) -> bytes:
        """Send a line and wait for the answer."""


class PipedProcess:
    """A child of this process, over two pipes."""

    def __init__(self, argv: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        assert self._child.stdin and self._child.stdout
        self._stdin: IO[bytes] = self._child.stdin
        self._stdout: IO[bytes] = self._child.stdout

    def round_trip(self, line: bytes) -> bytes:
        """Send a line and wait for the answer."""
        self._stdin.write(line)
        return self._stdout.readline()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.kill()
        self._child.communicate()
