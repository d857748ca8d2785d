"""The connections of one script to its Unix socket, so many and no more, and what each may make us keep."""

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
"""How many a script may have. One more takes the place of the one that has been idle for longest."""
SMALL_BYTES = 64 * 1024
"""What is read of a line on any connection."""
LARGE_LINES = 2
"""On how many connections there may be a line that is larger; the others wait, unread."""
RECEIVE_BYTES = 256 * 1024
TOKEN_SECONDS = 1.0
"""Seconds after which a connection without the token is the first to be closed for another."""
TINY_READS = 200
"""After so many reads without the end of a line or a worthwhile number of bytes, each further one costs a pause."""
TINY_READ_BYTES = 4096
TINY_READ_PAUSE = 0.01


class _Use(Enum):
    WAITING = "waiting"
    """Nothing has come on it since it was last looked at."""
    ACQUIRED = "taken"
    """A thread is at it."""
    HELD = "held"
    """It is in the middle of a large line, and others are before it."""


class Connection:
    """One connection. Only the thread that has taken it uses it."""

    def __init__(self, connected: socket.socket, dispatcher: Dispatcher) -> None:
        self.descriptor = connected.fileno()
        self.use = _Use.WAITING
        self.has_large_slot = False
        """Whether it has one of the places for a large line."""
        self.refused = False
        """Whether something came on it that was no request of the script's."""
        self.is_authenticated = False
        """Whether it has shown the token."""
        self._socket = connected
        self._dispatcher = dispatcher
        self._lines = IncomingLines(dispatcher.prefix)
        self._tiny_reads = 0
        self._since = time.monotonic()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way on it, as far as is known here."""
        return self.use is _Use.WAITING and (not self.is_authenticated or not self._lines.size)

    @property
    def has_unread_data(self) -> bool:
        """Whether something has come on it that was not read yet, if only its end."""
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    @property
    def is_unauthenticated(self) -> bool:
        """Whether it had the time to show the token, and did not."""
        return not self.is_authenticated and time.monotonic() - self._since > TOKEN_SECONDS

    @property
    def needs_large_slot(self) -> bool:
        """Whether it is in the middle of a line that is larger than any connection may have."""
        return self._lines.size >= SMALL_BYTES

    def receive(self) -> list[bytes] | None:
        """Read what has come, and return the lines in it; None if the connection is to be closed."""
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
        """Send an answer; nobody waits for it if that fails."""
        with contextlib.suppress(OSError):
            self._socket.sendall(answer)

    def shut_down(self) -> None:
        """Wake whoever waits for it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free its descriptor."""
        self._socket.close()


class Connections:
    """All of them, with a lock for who is at which.

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
        """Whether there is no room for another one without closing one."""
        return len(self._by_descriptor) >= MAX_CONNECTIONS

    @property
    def is_saturated(self) -> bool:
        """Whether the same holds, and none is idle."""
        with self._lock:
            return len(self._by_descriptor) >= MAX_CONNECTIONS and not any(
                each.is_idle for each in self._by_descriptor.values()
            )

    def add(self, connected: socket.socket) -> Connection:
        """Take a new one in."""
        connection = Connection(connected, self._dispatcher)
        with self._lock:
            self._by_descriptor[connection.descriptor] = connection
        return connection

    def make_room(self) -> bool:
        """Close an idle one if there are too many; False if none is idle.

        Strangers go first, and then what has been idle for longest. A script's own notices, and connects again.
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
        """Give a connection to the calling thread, unless another has it."""
        with self._lock:
            connection = self._by_descriptor.get(descriptor)
            if connection is None or connection.use is not _Use.WAITING:
                return None
            connection.use = _Use.ACQUIRED
            self._by_descriptor.move_to_end(descriptor)
            return connection

    def release(self, connection: Connection, *, goes_on: bool) -> None:
        """Take it back. It is read on when it is among those that are `ready`."""
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
        """Return those that may be read on, as far as there are places for large lines."""
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
        """Wake whoever waits for one of them."""
        with self._lock:
            for connection in self._by_descriptor.values():
                connection.shut_down()

    def close_all(self) -> None:
        """Free every descriptor, once no thread uses any."""
        with self._lock:
            for connection in self._by_descriptor.values():
                connection.close()
            self._by_descriptor.clear()
