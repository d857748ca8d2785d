"""A stream over a socket."""

from __future__ import annotations

import contextlib
import socket

from environments.loop import current
from environments.output import Channel
from environments.shell.outgoing import Outgoing
from environments.shell.stream import Stream

READ_SIZE = 256 * 1024
"""Bytes that are read at a time."""


class SocketStream(Stream):
    """A process at the other end of a socket. A subclass says how it ended, and may take apart what arrives.

    Args:
        connected: The socket, which belongs to the stream from here on. It may be made in any thread.
        early: Bytes that were read from it already.
    """

    def __init__(self, connected: socket.socket, early: bytes = b"") -> None:
        connected.setblocking(False)
        self._socket = connected
        self._early = early
        self._is_closed = False

    def _begin(self) -> None:
        self._poller = current().poller
        self._outgoing = Outgoing(self._socket.fileno(), self._shut)
        if self._early:
            self._poller.hand_in(self._take, self._early)  # in front of what is read
        self.resume()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:  # the link broke, and what the process printed last with it
            data = b""
        if data:
            self._take(data)
        else:
            self.pause()
            self._end()

    def _take(self, data: bytes) -> None:
        """Hand on what has arrived."""
        self.receiver.data_received(Channel.STDOUT, data)

    def write(self, data: bytes) -> None:
        """Send bytes, see `Stream`."""
        self._outgoing.write(data)

    @property
    def is_sent(self) -> bool:
        """Whether all is sent, see `Stream`."""
        return not self._outgoing

    async def drain(self) -> None:
        """Wait until all is sent, see `Stream`."""
        await self._outgoing.drain()

    def close_write(self) -> None:
        """Close our half of the socket, see `Stream`."""
        self._outgoing.close_write()

    def pause(self) -> None:
        """Stop reading, see `Stream`."""
        self._poller.watch_readable(self._socket.fileno(), None)

    def resume(self) -> None:
        """Read on, see `Stream`."""
        if not self.has_ended:
            self._poller.watch_readable(self._socket.fileno(), self._readable)

    async def close(self) -> None:
        """Close the socket, see `Stream`. What the process does about it is for the one at the other end."""
        if not self._is_closed:
            self._is_closed = True
            self.pause()
            self._outgoing.close()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._release()
            self._end()

    def _release(self) -> None:
        self._socket.close()
