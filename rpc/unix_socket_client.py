"""The script's side of the Unix socket: part of the stub, for Python 3.8 and the standard library alone."""

from __future__ import annotations

import os as _os
import socket as _socket
import threading as _threading
import time as _time

_SOCKET_PATH = ""
_CONNECT_SECONDS = 0.0
_ATTEMPTS = 20
_WAKING = ""
# A pipe in which to ask for what listens, if that starts only then.

_local = _threading.local()


class _Connection:
    def __init__(self, connected: _socket.socket) -> None:
        # A forked child has a copy of this; two processes on one connection would read each other's answers.
        self.process = _os.getpid()
        self.socket = connected
        self.reader = connected.makefile("rb")
        self.inode = _os.fstat(connected.fileno()).st_ino

    def is_open(self) -> bool:
        # A script may close all descriptors, as daemons do, and open others under the same numbers.
        try:
            return _os.fstat(self.socket.fileno()).st_ino == self.inode
        except OSError:
            return False

    def __del__(self) -> None:
        if not self.is_open():
            self.socket.detach()
        self.reader.close()
        self.socket.close()


_has_connected = False


def _connect() -> _Connection:
    global _has_connected  # noqa: PLW0603
    # What listens may still be starting. Once it has answered, it is there or it is gone.
    give_up = _time.monotonic() + (0 if _has_connected else _CONNECT_SECONDS)
    while True:
        connected = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            connected.connect(_SOCKET_PATH)
        except OSError:
            connected.close()
            _wake()
            if _time.monotonic() >= give_up:
                raise
            _time.sleep(0.001)
        else:
            _has_connected = True
            return _Connection(connected)


def _wake() -> None:
    global _WAKING
    path, _WAKING = _WAKING, ""
    if path:
        try:
            pipe = _os.open(path, _os.O_WRONLY | _os.O_NONBLOCK)
            _os.write(pipe, b"tools\n")
            _os.close(pipe)
        except OSError:
            pass


def _exchange(request_line: bytes) -> bytes:
    connection = getattr(_local, "connection", None)
    # Kept only after a whole exchange: one cut short by a signal leaves an answer that the next would read.
    _local.connection = None
    if connection is None or connection.process != _os.getpid() or not connection.is_open():
        connection = _connect()
    for attempt in range(_ATTEMPTS):
        try:
            return _exchange_on(connection, request_line)
        except ConnectionError:
            # It had to make room for another. A request that is sent twice runs once.
            _time.sleep(attempt * 0.01)
            connection = _connect()
    return _exchange_on(connection, request_line)


def _exchange_on(connection: _Connection, request_line: bytes) -> bytes:
    connection.socket.sendall(request_line)
    answer = connection.reader.readline()
    if not answer.endswith(b"\n"):
        raise ConnectionError("the connection was closed before the answer came")
    _local.connection = connection
    return bytes(answer)
