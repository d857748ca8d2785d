"""The queue of bytes for a stream's file descriptor, with back-pressure."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

from environments.loop import current

MOST_AT_ONCE = 256 * 1024
"""Bytes per write."""


class Outgoing:
    """Queued bytes for a non-blocking file descriptor. All methods run on the loop thread.

    Args:
        descriptor: A pipe, a socket or a terminal.
        end: Sends end of file to the reader. Called after `close_write` once all bytes are written.
    """

    def __init__(self, descriptor: int, end: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._end = end
        self._poller = current().poller
        self._unsent = bytearray()
        self._room: asyncio.Event | None = None
        self.is_at_end = False
        """True once no more bytes may be written."""

    def __len__(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Write bytes, now or as the reader reads.

        Raises:
            BrokenPipeError: The reader is gone, or the queue is closed.
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
        except OSError:  # the reader is gone
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
        """Wait until all bytes are written, or cannot be (back-pressure). Several tasks may wait."""
        if self._unsent:
            self._room = self._room or asyncio.Event()
            await self._room.wait()

    def close_write(self) -> None:
        """Send end of file after all written bytes."""
        if not self.is_at_end:
            self.is_at_end = True
            if not self._unsent:
                self._end()

    def close(self) -> None:
        """Drop unsent bytes. The caller closes the file descriptor afterwards."""
        self.is_at_end = True
        if self._unsent:
            self._unsent.clear()
            self._done()
