"""A stream over a socket."""

from __future__ import annotations

import contextlib
import socket

from environments.loop import current
from environments.output import Channel
from environments.shell.outgoing import Outgoing
from environments.shell.stream import Stream

REST = 0.002
"""Seconds behind a command for which its report is left unread: then it is mostly there as a whole."""
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
        thread = current()
        self._poller, self._rest = thread.poller, thread.delay(REST)
        self._is_resting = False
        self._outgoing = Outgoing(self._socket.fileno(), self._shut)
        if self._early:
            self._poller.submit(self._take, self._early)  # in front of what is read
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
        if self._is_resting:
            self.resume()
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

    def rest(self, *, reports: bool) -> None:
        """Leave a report unread until the next command, or for a moment, see `Stream`.

        It comes in many pieces. Each would wake the loop, and compete with the caller for the interpreter.
        """
        if reports:
            self.pause()
            self._is_resting = True
            self._rest.begin(self, self.resume)

    def _rested(self) -> None:
        self._is_resting = False
        self._rest.end(self)

    def pause(self) -> None:
        """Stop reading, see `Stream`."""
        self._rested()
        self._poller.watch_readable(self._socket.fileno(), None)

    def resume(self) -> None:
        """Read on, see `Stream`."""
        self._rested()
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
