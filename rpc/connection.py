"""Connections of a script to the Unix socket, with limits for their number and for the bytes kept of each."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import OrderedDict
from enum import Enum

from rpc.dispatcher import Dispatcher
from rpc.messages import IncomingLines, InvalidLineError, Response, TooLargeError, too_large

MAX_CONNECTIONS = 64
"""Limit for open connections. A further one replaces the connection that has been idle for longest."""
SMALL_BYTES = 64 * 1024
"""Bytes of an incomplete line that every connection may have."""
LARGE_LINES = 2
"""Connections that may have a larger line at the same time; others wait unread."""
RECEIVE_BYTES = 256 * 1024
TOKEN_SECONDS = 1.0
"""Seconds after which a connection without the token is the first to be closed for another."""
TINY_READS = 200
"""Tiny reads in a row without the end of a line; each further one costs a pause."""
TINY_READ_BYTES = 4096
TINY_READ_PAUSE = 0.01


class _Use(Enum):
    WAITING = "waiting"
    """No thread handles the connection; the poller watches the descriptor."""
    ACQUIRED = "taken"
    """A thread handles the connection."""
    HELD = "held"
    """The connection waits for a slot for a large line."""


class Connection:
    """A connection of the script, used only by the thread holding the reservation."""

    def __init__(self, connected: socket.socket, dispatcher: Dispatcher) -> None:
        self.descriptor = connected.fileno()
        self.use = _Use.WAITING
        self.has_large_slot = False
        """True while the connection has one of the slots for a large line."""
        self.refused = False
        """True once bytes came that were no request of the script."""
        self.is_authenticated = False
        """True once the token has arrived."""
        self._socket = connected
        self._dispatcher = dispatcher
        self._lines = IncomingLines(dispatcher.prefix)
        self._tiny_reads = 0
        self._since = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """True if no request is known to be under way."""
        return self.use is _Use.WAITING and (not self.is_authenticated or not self._lines.size)

    @property
    def has_unread_data(self) -> bool:
        """True if unread bytes or the end of the stream have arrived."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    @property
    def is_unauthenticated(self) -> bool:
        """True if the token is overdue."""
        return not self.is_authenticated and time.monotonic() - self._since > TOKEN_SECONDS

    @property
    def needs_large_slot(self) -> bool:
        """True if the incomplete line needs a slot for large lines."""
        return self._lines.size >= SMALL_BYTES

    def receive(self) -> list[bytes] | None:
        """Read available bytes and return the complete lines; None if the connection has to be closed."""
        size = RECEIVE_BYTES if self.has_large_slot else SMALL_BYTES - self._lines.size
        if not self.is_authenticated:
            size = min(size, len(self._dispatcher.prefix))
        try:
            data = self._socket.recv(size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        try:
            lines = self._lines.feed(data)
        except TooLargeError:
            self._refuse(Response("", error=too_large()).encode())
        except InvalidLineError:
            self._refuse(self._dispatcher.refusal(len(data)))
        else:
            self.is_authenticated = (
                self.is_authenticated or self._lines.size >= len(self._dispatcher.prefix) or bool(lines)
            )
            self._slow_down(len(data), complete=bool(lines))
            return lines
        return None

    def _refuse(self, answer: bytes) -> None:
        self.refused = True
        with contextlib.suppress(OSError):
            self._socket.send(answer, socket.MSG_DONTWAIT)

    def _slow_down(self, size: int, *, complete: bool) -> None:
        if complete or size >= TINY_READ_BYTES:
            self._tiny_reads = 0
            return
        self._tiny_reads += 1
        if self._tiny_reads > TINY_READS:
            time.sleep(TINY_READ_PAUSE)

    def send(self, answer: bytes) -> None:
        """Send an answer. An error is ignored, because then the reader is gone."""
        with contextlib.suppress(OSError):
            self._socket.sendall(answer)

    def shut_down(self) -> None:
        """Shut down the socket to wake a waiting thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the descriptor."""
        self._socket.close()


class Connections:
    """All open connections, with a lock for their assignment to threads.

    Args:
        dispatcher: Knows the token.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._by_descriptor: OrderedDict[int, Connection] = OrderedDict()
        self._large = 0

    @property
    def is_full(self) -> bool:
        """True if a further connection needs another to be closed."""
        return len(self._by_descriptor) >= MAX_CONNECTIONS

    @property
    def is_saturated(self) -> bool:
        """True if the limit is reached and no connection is idle."""
        with self._lock:
            return len(self._by_descriptor) >= MAX_CONNECTIONS and not any(
                each.is_idle for each in self._by_descriptor.values()
            )

    def add(self, connected: socket.socket) -> Connection:
        """Add a new connection."""
        connection = Connection(connected, self._dispatcher)
        with self._lock:
            self._by_descriptor[connection.descriptor] = connection
        return connection

    def make_room(self) -> bool:
        """Close an idle connection if the limit is reached; False if none is idle.

        Connections without the token are closed first, then the connection idle for longest. A script's stub
        notices and connects again.
        """
        with self._lock:
            if not self.is_full:
                return True
            idle = [each for each in self._by_descriptor.values() if each.is_idle]
            idle.sort(key=lambda each: (not each.is_unauthenticated, not each.is_authenticated, each.has_unread_data))
            if not idle:
                return False
            del self._by_descriptor[idle[0].descriptor]
            idle[0].close()
            return True

    def acquire(self, descriptor: int) -> Connection | None:
        """Reserve a connection for the calling thread; None if another thread holds the reservation."""
        with self._lock:
            connection = self._by_descriptor.get(descriptor)
            if connection is None or connection.use is not _Use.WAITING:
                return None
            connection.use = _Use.ACQUIRED
            self._by_descriptor.move_to_end(descriptor)
            return connection

    def release(self, connection: Connection, *, goes_on: bool) -> None:
        """Release a connection. Reading goes on after `resume_ready` has returned the descriptor."""
        with self._lock:
            if connection.has_large_slot and not (goes_on and connection.needs_large_slot):
                connection.has_large_slot = False
                self._large -= 1
            if goes_on:
                connection.use = _Use.HELD
                return
            del self._by_descriptor[connection.descriptor]
            connection.close()

    def resume_ready(self) -> list[int]:
        """Return the descriptors to be watched again, as far as slots for large lines are free."""
        ready = []
        with self._lock:
            for connection in self._by_descriptor.values():
                if connection.use is not _Use.HELD:
                    continue
                if connection.needs_large_slot and not connection.has_large_slot:
                    if self._large >= LARGE_LINES:
                        continue
                    connection.has_large_slot = True
                    self._large += 1
                connection.use = _Use.WAITING
                ready.append(connection.descriptor)
        return ready

    def shut_down(self) -> None:
        """Shut down all sockets to wake waiting threads."""
        with self._lock:
            for connection in self._by_descriptor.values():
                connection.shut_down()

    def close_all(self) -> None:
        """Close all descriptors. Call after the last thread has ended."""
        with self._lock:
            for connection in self._by_descriptor.values():
                connection.close()
            self._by_descriptor.clear()
