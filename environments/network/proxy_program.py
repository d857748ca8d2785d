"""The proxy's side in the target: it takes connections on 127.0.0.1, and carries them over standard input and output.

It is sent into the target as text, and runs on the target's Python, 3.8 or later. See `channel` for the frames. It
reads no request: whatever a program there sends is for the other side to judge.
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
WINDOW, MOST, LARGEST = 128 * 1024, 256, 64 * 1024
MOST_LEAVING, LEAVING = 128, 2.0
UNAVAILABLE = b"HTTP/1.1 503 too many connections at once\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Connection:
    """One connection of a program."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.credit = WINDOW
        self.pending = bytearray()
        self.untold = 0
        self.at_end = self.ends = self.shut = False
        self.leaves = 0.0


class Proxy:
    """All connections, and the way to the other side."""

    def __init__(self, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(128)
        self.listener.setblocking(False)
        self.wanted: dict[int | socket.socket, int] = {}
        self.connections: dict[int, Connection] = {}
        self.leaving: list[Connection] = []
        self.numbers = 0
        self.accepts_at = 0.0
        self.unsent, self.received = bytearray(), bytearray()
        for descriptor in (0, 1):
            os.set_blocking(descriptor, False)
        self.want(0, READ)

    def want(self, thing: int | socket.socket, events: int, data: Connection | None = None) -> None:
        """Wait for events of a descriptor or socket, and for no others."""
        before = self.wanted.get(thing, 0)
        if events == before:
            return
        if not before:
            self.selector.register(thing, events, data)
        elif events:
            self.selector.modify(thing, events, data)
        else:
            self.selector.unregister(thing)
        if events:
            self.wanted[thing] = events
        else:
            del self.wanted[thing]

    def run(self) -> None:
        """Carry connections until the input ends."""
        while True:
            now = time.monotonic()
            self.want(self.listener, READ if len(self.leaving) < MOST_LEAVING and now >= self.accepts_at else 0)
            self.want(1, WRITE if self.unsent else 0)
            waits = self.leaving or now < self.accepts_at
            for key, events in self.selector.select(0.2 if waits else None):
                if key.fileobj == 0:
                    self.read_input()
                elif key.fileobj == 1:
                    self.write_output()
                elif key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj in self.wanted:
                    if events & WRITE:
                        self.write_to(key.data)
                    if events & READ and key.fileobj in self.wanted:
                        self.read_from(key.data)
            if self.leaving:
                now = time.monotonic()
                for connection in [each for each in self.leaving if each.leaves < now]:
                    self.drop(connection)

    def send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        """Send a frame."""
        self.unsent += HEAD.pack(kind, number, len(data)) + data
        if len(self.unsent) < LARGEST:
            self.write_output()

    def write_output(self) -> None:
        """Write what is unsent."""
        was_full = self.is_full
        try:
            del self.unsent[: os.write(1, self.unsent[:LARGEST])]
        except BlockingIOError:
            return
        except OSError:
            sys.exit(0)
        if was_full and not self.is_full:
            for connection in self.connections.values():
                self.await_events(connection)

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be read from programs until the other side has read."""
        return len(self.unsent) > 4 * LARGEST

    def read_input(self) -> None:
        """Take frames."""
        try:
            data = os.read(0, LARGEST)
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
            self.take(kind, number, bytes(self.received[at : at + size]))
            at += size
        del self.received[:at]

    def take(self, kind: bytes, number: int, data: bytes) -> None:
        """Take a frame."""
        connection = self.connections.get(number)
        if connection is None:
            return
        if kind == b"D":
            connection.pending += data
        elif kind == b"W":
            connection.credit += struct.unpack(">I", data)[0]
        elif kind == b"E":
            connection.ends = True
        elif kind == b"C":
            self.leave(connection)
        self.write_to(connection)

    def accept(self) -> None:
        """Take a connection, or say that there are too many."""
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self.accepts_at = time.monotonic() + 0.2
            return
        sock.setblocking(False)
        if len(self.connections) >= MOST:
            connection = Connection(sock, 0)
            connection.pending += UNAVAILABLE
            self.leave(connection)
        else:
            self.numbers = self.numbers % 0xFFFFFFFF + 1
            while self.numbers in self.connections:
                self.numbers = self.numbers % 0xFFFFFFFF + 1
            connection = self.connections[self.numbers] = Connection(sock, self.numbers)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.send(b"O", connection.number)
        self.write_to(connection)

    def leave(self, connection: Connection) -> None:
        """Close a connection once it was sent what is pending, and has read it."""
        self.connections.pop(connection.number, None)
        connection.ends, connection.leaves = True, time.monotonic() + LEAVING
        self.leaving.append(connection)

    def drop(self, connection: Connection) -> None:
        """Close a connection now."""
        self.want(connection.sock, 0)
        connection.sock.close()
        if connection.leaves:
            self.leaving.remove(connection)
        elif self.connections.pop(connection.number, None):
            self.send(b"C", connection.number)

    def await_events(self, connection: Connection) -> None:
        """Wait for what a connection can do next."""
        reads = bool(connection.leaves) or (connection.credit > 0 and not self.is_full)
        events = READ if reads and not connection.at_end else 0
        self.want(connection.sock, events | (WRITE if connection.pending else 0), connection)

    def write_to(self, connection: Connection) -> None:
        """Write what is pending to a program."""
        try:
            if connection.pending:
                sent = connection.sock.send(connection.pending[:LARGEST])
                del connection.pending[:sent]
                connection.untold += sent
            if connection.ends and not connection.pending and not connection.shut:
                connection.shut = True
                connection.sock.shutdown(socket.SHUT_WR)
            if connection.leaves and connection.shut and connection.at_end:
                self.drop(connection)
                return
        except BlockingIOError:
            pass
        except OSError:
            self.drop(connection)
            return
        if not connection.leaves and connection.untold >= (WINDOW // 4 if connection.pending else 1):
            self.send(b"W", connection.number, struct.pack(">I", connection.untold))
            connection.untold = 0
        self.await_events(connection)

    def read_from(self, connection: Connection) -> None:
        """Read what a program sends. What one sends that is to be closed is dropped."""
        most = LARGEST if connection.leaves else min(connection.credit, LARGEST)
        if not most:
            return
        try:
            data = connection.sock.recv(most)
        except BlockingIOError:
            return
        except OSError:
            self.drop(connection)
            return
        if connection.leaves:
            if not data:
                self.drop(connection)
            return
        if data:
            connection.credit -= len(data)
            self.send(b"D", connection.number, data)
        else:
            connection.at_end = True
            self.send(b"E", connection.number)
        self.await_events(connection)


def main(port: int) -> None:
    """Run, and say how the start came out."""
    try:
        proxy = Proxy(port)
    except OSError as error:
        said = f"cannot listen at 127.0.0.1:{port}: {error.strerror}".encode()
        os.write(1, HEAD.pack(b"R", 0, len(said)) + said)
        return
    proxy.send(b"R", 0, str(port).encode())
    proxy.run()
