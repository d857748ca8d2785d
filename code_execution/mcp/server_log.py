"""What an MCP server says on its standard error: nothing that anybody wants to see, unless it fails."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO

import anyio

TAIL_BYTES = 2_000
"""Bytes of the end that are kept."""
_PIECE = 65_536


class ServerLog:
    """A file for a server to write to, of which the end is kept."""

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self.file: TextIO = open(write_end, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`
        self._tail = b""

    async def drain(self) -> None:
        """Read what the server writes, so that it never waits for a reader, until this is cancelled."""
        while True:
            await anyio.wait_readable(self._read_end)
            self._read()

    def tail(self) -> str:
        """Return the end of what it has written so far."""
        self._read()
        return self._tail.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Give up the file. Nothing drains it any more."""
        self.file.close()
        os.close(self._read_end)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._tail = (self._tail + os.read(self._read_end, _PIECE))[-TAIL_BYTES:]
