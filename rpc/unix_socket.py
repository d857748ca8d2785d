"""The transport for this machine: a Unix socket in a directory of its own."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import BinaryIO

from environments.owner import Owner
from rpc.dispatcher import Dispatcher
from rpc.messages import MAX_MESSAGE_BYTES, Response, too_large
from rpc.target_source import target_source

CLOSE_GRACE_SECONDS = 2.0
_DRAIN_BYTES = 65536


class UnixSocketTransport:
    """Takes requests from scripts on this machine. Each connection has a thread, its requests run in it."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._closed = False
        self._directory: Path | None = None
        self._listener: socket.socket | None = None
        self._acceptor: threading.Thread | None = None

    @property
    def client_source(self) -> str:
        """The script's side, as in `Transport`."""
        if self._directory is None:
            raise RuntimeError("start() the transport before asking for its client")
        return target_source("unix_socket_client.py", _SOCKET_PATH=str(self._directory / "socket"))

    def start(self) -> None:
        """Listen on a new socket.

        Raises:
            OSError: The directory or the socket could not be made.
        """
        # In /tmp whatever TMPDIR says: a socket's path may have no more than 107 bytes (103 on macOS).
        self._directory = Path(tempfile.mkdtemp(prefix=f"hermes-{Owner.this_process().mark}-", dir="/tmp"))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(self._directory / "socket"))
            self._listener.listen(128)
        except OSError:
            self.close()
            raise
        self._acceptor = threading.Thread(target=self._accept, args=(self._listener,), name="hermes-rpc", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End as `Transport.close` says."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            connections = dict(self._connections)
        self._stop_listening()
        for connection in connections:
            _shut_down(connection)
        deadline = time.monotonic() + CLOSE_GRACE_SECONDS
        for thread in connections.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _stop_listening(self) -> None:
        if self._listener is None:
            return
        # A blocked accept() returns from shutdown() on Linux; elsewhere it takes a connection to wake it.
        _shut_down(self._listener)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as waker:
            waker.connect(str(self._listener.getsockname()))
        if self._acceptor is not None:
            self._acceptor.join(CLOSE_GRACE_SECONDS)
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        while not self._closed:
            try:
                connection, _ = listener.accept()
            except OSError:
                if not self._closed:
                    time.sleep(0.05)  # out of descriptors: the connection stays in the backlog
            else:
                self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="hermes-rpc-call", daemon=True)
        with self._lock:
            if not self._closed:
                with contextlib.suppress(RuntimeError):  # no more threads: the script sees its connection close
                    thread.start()
                    self._connections[connection] = thread
                    return
        connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            # OSError: the script died or the transport was closed, so nobody waits for the answer.
            with connection, connection.makefile("rb") as reader, contextlib.suppress(OSError):
                while line := reader.readline(MAX_MESSAGE_BYTES + 1):
                    connection.sendall(self._answer(line, reader))
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _answer(self, line: bytes, reader: BinaryIO) -> bytes:
        if len(line) <= MAX_MESSAGE_BYTES:
            return self._dispatcher.dispatch(line)
        while line and not line.endswith(b"\n"):
            line = reader.readline(_DRAIN_BYTES)
        return Response("", error=too_large()).encode()


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
