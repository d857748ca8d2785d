"""A stream over a socket, for a process at its other end."""

from __future__ import annotations

import contextlib
import socket

from environments.loop import current
from environments.output import Channel
from environments.shell.outgoing import Outgoing
from environments.shell.stream import Stream

REST = 0.002
"""Seconds after a command with its state report left unread: by then the report is usually complete."""
READ_SIZE = 256 * 1024
"""Bytes per read."""


class SocketStream(Stream):
    """A process at the other end of a socket. A subclass reports the exit code, and may parse received bytes.

    Args:
        connected: The socket, owned by the stream from here on. May be made in any thread.
        early: Bytes already read from the socket.
    """

    def __init__(self, connected: socket.socket, early: bytes = b"") -> None:
        connected.setblocking(False)
        self._socket = connected
        self._early = early
        self._is_closed = False

    def _begin(self) -> None:
        thread = current()
        self._poller, self._rest = thread.poller, thread.timer(REST)
        self._is_resting = False
        self._outgoing = Outgoing(self._socket.fileno(), self._shut)
        if self._early:
            self._poller.submit(self._take, self._early)  # before later bytes
        self.resume()

    def _shut(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:  # the link broke, and the process's last output is lost
            data = b""
        if data:
            self._take(data)
        else:
            self.pause()
            self._end()

    def _take(self, data: bytes) -> None:
        """Deliver received bytes."""
        self.receiver.data_received(Channel.STDOUT, data)

    def write(self, data: bytes) -> None:
        if self._is_resting:
            self.resume()
        self._outgoing.write(data)

    @property
    def is_sent(self) -> bool:
        return not self._outgoing

    async def drain(self) -> None:
        await self._outgoing.drain()

    def close_write(self) -> None:
        self._outgoing.close_write()

    def rest(self, *, reports: bool) -> None:
        # A report arrives in many pieces. Each would wake the loop, and compete with the caller for the interpreter
        # lock.
        if reports:
            self.pause()
            self._is_resting = True
            self._rest.schedule(self, self.resume)

    def _rested(self) -> None:
        self._is_resting = False
        self._rest.cancel(self)

    def pause(self) -> None:
        self._rested()
        self._poller.watch_readable(self._socket.fileno(), None)

    def resume(self) -> None:
        self._rested()
        if not self.has_ended:
            self._poller.watch_readable(self._socket.fileno(), self._readable)

    async def close(self) -> None:
        # The effect on the process is up to the other end.
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
