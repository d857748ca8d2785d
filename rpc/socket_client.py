"""The script's half of a Unix socket: part of the stub, for Python 3.8 and the standard library alone."""

from __future__ import annotations

import os as _os
import time as _time
from _thread import _local

try:
    import _socket
except ImportError:  # another Python than CPython
    import socket as _socket  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rpc.stub_runtime import _own

_CONNECT_SECONDS = 20.0
# Seconds a first call waits for the listener, which may still be starting.
_ATTEMPTS = 20
_RECEIVE = 262144
_LONGEST = 100
# Bytes of a socket address that every system accepts.


class _Connection:
    def __init__(self, connected: _socket.socket) -> None:
        # A forked child has a copy of this; two processes on one connection would read each other's answers.
        self.process = _os.getpid()
        self.socket = connected
        self.status = _os.fstat  # kept, because the module's names are gone when the interpreter ends
        self.inode = self.status(connected.fileno()).st_ino

    def is_open(self) -> bool:
        # A script may close all descriptors, as daemons do, and open others under the same numbers.
        try:
            return bool(self.status(self.socket.fileno()).st_ino == self.inode)
        except OSError:
            return False

    def __del__(self) -> None:
        if not self.is_open():
            self.socket.detach()
        self.socket.close()


_connections = _local()
_has_connected = False


def _connect_to(connected: _socket.socket, path: str) -> None:
    if len(_os.fsencode(path)) <= _LONGEST:
        connected.connect(path)
        return
    directory, _, name = path.rpartition("/")
    place = _os.open(directory, _os.O_RDONLY)
    try:
        connected.connect(f"/proc/self/fd/{place}/{name}")
    finally:
        _os.close(place)


def _connect() -> _Connection:
    global _has_connected  # noqa: PLW0603
    # The listener may still be starting. After the first answer it is there or gone.
    give_up = _time.monotonic() + (0 if _has_connected else _CONNECT_SECONDS)
    while True:
        connected = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            _connect_to(connected, _own()[1])
        except OSError:
            connected.close()
            if _time.monotonic() >= give_up:
                raise
            _time.sleep(0.0005)
        else:
            _has_connected = True
            return _Connection(connected)


def _exchange(request_line: bytes) -> bytes:
    connection = getattr(_connections, "mine", None)
    # Kept only after a whole exchange: if a signal cuts an exchange short, the next call would read the old answer.
    _connections.mine = None
    if connection is None or connection.process != _os.getpid() or not connection.is_open():
        connection = _connect()
    for attempt in range(_ATTEMPTS):
        try:
            return _exchange_on(connection, request_line)
        except ConnectionError:
            # The connection was closed to make room for another. A request that is sent twice runs once.
            _time.sleep(attempt * 0.01)
            connection = _connect()
    return _exchange_on(connection, request_line)


def _exchange_on(connection: _Connection, request_line: bytes) -> bytes:
    connection.socket.sendall(request_line)
    answer = b""
    while not answer.endswith(b"\n"):  # an answer is one line
        piece = connection.socket.recv(_RECEIVE)
        if not piece:
            raise ConnectionError("the connection was closed before the answer came")
        answer += piece
    _connections.mine = connection
    return answer
