"""What a stream has yet to write to its descriptor."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

from environments.loop import current

MOST_AT_ONCE = 256 * 1024
"""Bytes that are offered to a descriptor at a time."""


class Outgoing:
    """Bytes on their way to a descriptor that never blocks. Everything is called on the loop thread.

    Args:
        descriptor: A pipe, a socket or a terminal.
        end: Lets the reader see the end of file. Called once everything is written that came before `close_write`.
    """

    def __init__(self, descriptor: int, end: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._end = end
        self._poller = current().poller
        self._unsent = bytearray()
        self._room: asyncio.Event | None = None
        self.is_at_end = False
        """True once nothing more may be written."""

    def __len__(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Write bytes, now or as the reader reads.

        Raises:
            BrokenPipeError: Nobody reads any more, or nothing more may be written.
        """
        if self.is_at_end:
            raise BrokenPipeError(errno.EPIPE, "the stream is closed")
        if not self._unsent:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                pass
            except ConnectionError as error:
                raise BrokenPipeError(error.errno, "the process does not read any more") from error
            if not data:
                return
            self._poller.watch_writable(self._descriptor, self._writable)
        self._unsent += data

    def _writable(self) -> None:
        try:
            del self._unsent[: os.write(self._descriptor, self._unsent[:MOST_AT_ONCE])]
        except BlockingIOError:
            return
        except OSError:  # it does not read any more
            self._unsent.clear()
        if not self._unsent:
            self._done()
            if self.is_at_end:
                self._end()

    def _done(self) -> None:
        self._poller.watch_writable(self._descriptor, None)
        room, self._room = self._room, None
        if room:
            room.set()

    async def drain(self) -> None:
        """Wait until everything is written, or cannot be written any more. Several tasks may wait."""
        if self._unsent:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def close_write(self) -> None:
        """Let the reader see the end of file behind what was written."""
        if not self.is_at_end:
            self.is_at_end = True
            if not self._unsent:
                self._end()

    def close(self) -> None:
        """Drop what is unsent. The descriptor is to be closed behind this."""
        self.is_at_end = True
        if self._unsent:
            self._unsent.clear()
            self._done()
