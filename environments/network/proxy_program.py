"""The proxy program in the target: accepts connections on 127.0.0.1, and multiplexes them over stdin and stdout.

It is sent to the target as text, and runs on the target's Python, 3.8 or later. The module `multiplexer` describes the
frames. Requests are not parsed here: the proxy on the other side checks them.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import struct
import sys
import time

HEAD = struct.Struct(">cII")
WINDOW, MAX_CONNECTIONS, MAX_FRAME = 128 * 1024, 256, 64 * 1024
MAX_CLOSING, CLOSE_LIMIT = 128, 2.0
UNAVAILABLE = b"HTTP/1.1 503 too many connections at once\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class ClientConnection:
    """One connection of a program."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.credit = WINDOW
        self.pending = bytearray()
        self.unreported = 0
        self.at_end = self.is_ending = self.is_shut = False
        self.close_at = 0.0


class Proxy:
    """All connections, multiplexed over stdin and stdout."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.watched: dict[int | socket.socket, int] = {}
        self.connections: dict[int, ClientConnection] = {}
        self.closing: list[ClientConnection] = []
        self.last_number = 0
        self.accepts_at = 0.0
        self.unsent, self.received = bytearray(), bytearray()
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self.watch(0, READ)

    def watch(self, file: int | socket.socket, events: int, data: ClientConnection | None = None) -> None:
        """Watch a descriptor or socket for these events only."""
        before = self.watched.get(file, 0)
        if events == before:
            return
        if not before:
            self.selector.register(file, events, data)
        elif events:
            self.selector.modify(file, events, data)
        else:
            self.selector.unregister(file)
        if events:
            self.watched[file] = events
        else:
            del self.watched[file]

    def run(self) -> None:
        """Relay connections until the end of the input."""
        while True:
            now = time.monotonic()
            self.watch(self.listener, READ if len(self.closing) < MAX_CLOSING and now >= self.accepts_at else 0)
            self.watch(1, WRITE if self.unsent else 0)
            waits = self.closing or now < self.accepts_at
            for key, events in self.selector.select(0.2 if waits else None):
                if key.fileobj == 0:
                    self.read_input()
                elif key.fileobj == 1:
                    self.write_output()
                elif key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj in self.watched:
                    if events & WRITE:
                        self.write_to(key.data)
                    if events & READ and key.fileobj in self.watched:
                        self.read_from(key.data)
            if self.closing:
                now = time.monotonic()
                for connection in [each for each in self.closing if each.close_at < now]:
                    self.close(connection)

    def send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        """Send a frame."""
        self.unsent += HEAD.pack(kind, number, len(data)) + data
        if len(self.unsent) < MAX_FRAME:
            self.write_output()

    def write_output(self) -> None:
        """Write unsent frames."""
        was_full = self.is_full
        try:
            del self.unsent[: os.write(1, self.unsent[:MAX_FRAME])]
        except BlockingIOError:
            return
        except OSError:
            sys.exit(0)
        if was_full and not self.is_full:
            for connection in self.connections.values():
                self.await_events(connection)

    @property
    def is_full(self) -> bool:
        """True if reading from programs is paused until the other side has read: back-pressure."""
        return len(self.unsent) > 4 * MAX_FRAME

    def read_input(self) -> None:
        """Read frames."""
        try:
            data = os.read(0, MAX_FRAME)
        except BlockingIOError:
            return
        if not data:
            sys.exit(0)
        self.received += data
        at = 0
        while len(self.received) - at >= HEAD.size:
            kind, number, size = HEAD.unpack_from(self.received, at)
            if len(self.received) - at < HEAD.size + size:
                break
            at += HEAD.size
            self.handle_frame(kind, number, bytes(self.received[at : at + size]))
            at += size
        del self.received[:at]

    def handle_frame(self, kind: bytes, number: int, data: bytes) -> None:
        """Handle a frame."""
        connection = self.connections.get(number)
        if connection is None:
            return
        if kind == b"D":
            connection.pending += data
        elif kind == b"W":
            connection.credit += struct.unpack(">I", data)[0]
        elif kind == b"E":
            connection.is_ending = True
        elif kind == b"C":
            self.close_when_read(connection)
        self.write_to(connection)

    def accept(self) -> None:
        """Accept a connection, or answer 503 if there are too many."""
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self.accepts_at = time.monotonic() + 0.2
            return
        sock.setblocking(False)
        if len(self.connections) >= MAX_CONNECTIONS:
            connection = ClientConnection(sock, 0)
            connection.pending += UNAVAILABLE
            self.close_when_read(connection)
        else:
            self.last_number = self.last_number % 0xFFFFFFFF + 1
            while self.last_number in self.connections:
                self.last_number = self.last_number % 0xFFFFFFFF + 1
            connection = self.connections[self.last_number] = ClientConnection(sock, self.last_number)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.send(b"O", connection.number)
        self.write_to(connection)

    def close_when_read(self, connection: ClientConnection) -> None:
        """Close a connection after its pending data was sent and read."""
        self.connections.pop(connection.number, None)
        connection.is_ending, connection.close_at = True, time.monotonic() + CLOSE_LIMIT
        self.closing.append(connection)

    def close(self, connection: ClientConnection) -> None:
        """Close a connection now."""
        self.watch(connection.sock, 0)
        connection.sock.close()
        if connection.close_at:
            self.closing.remove(connection)
        elif self.connections.pop(connection.number, None):
            self.send(b"C", connection.number)

    def await_events(self, connection: ClientConnection) -> None:
        """Watch for the events that a connection can handle next."""
        reads = bool(connection.close_at) or (connection.credit > 0 and not self.is_full)
        events = READ if reads and not connection.at_end else 0
        self.watch(connection.sock, events | (WRITE if connection.pending else 0), connection)

    def write_to(self, connection: ClientConnection) -> None:
        """Write pending data to a program."""
        try:
            if connection.pending:
                sent = connection.sock.send(connection.pending[:MAX_FRAME])
                del connection.pending[:sent]
                connection.unreported += sent
            if connection.is_ending and not connection.pending and not connection.is_shut:
                connection.is_shut = True
                connection.sock.shutdown(socket.SHUT_WR)
            if connection.close_at and connection.is_shut and connection.at_end:
                self.close(connection)
                return
        except BlockingIOError:
            pass
        except OSError:
            self.close(connection)
            return
        if not connection.close_at and connection.unreported >= (WINDOW // 4 if connection.pending else 1):
            self.send(b"W", connection.number, struct.pack(">I", connection.unreported))
            connection.unreported = 0
        self.await_events(connection)

    def read_from(self, connection: ClientConnection) -> None:
        """Read from a program. Data on a closing connection is dropped."""
        size = MAX_FRAME if connection.close_at else min(connection.credit, MAX_FRAME)
        if not size:
            return
        try:
            data = connection.sock.recv(size)
        except BlockingIOError:
            return
        except OSError:
            self.close(connection)
            return
        if connection.close_at:
            if not data:
                self.close(connection)
            return
        if data:
            connection.credit -= len(data)
            self.send(b"D", connection.number, data)
        else:
            connection.at_end = True
            self.send(b"E", connection.number)
        self.await_events(connection)


def main(port: int) -> None:
    """Run the proxy program, and report whether the port is open."""
    try:
        proxy = Proxy(port)
    except OSError as error:
        message = f"cannot listen at 127.0.0.1:{port}: {error.strerror}".encode()
        os.write(1, HEAD.pack(b"R", 0, len(message)) + message)
        return
    proxy.send(b"R", 0, str(port).encode())
    proxy.run()
