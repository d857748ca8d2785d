"""A proxy on a Unix socket, to inspect requests and responses."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self

PIECE = 64 * 1024


class EngineLink:
    """A Unix socket whose connections are forwarded to another socket.

    Args:
        path: Path of the new socket.
        target: Path of the socket behind it.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.connections = 0
        """Connections so far."""
        self._target = target
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._sockets: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def requested(self, here: socket.socket, data: bytes) -> bool:
        """Inspect a client's data; return True to forward it."""
        return True

    def answered(self, here: socket.socket) -> None:
        """Runs before the server's data is sent to the client."""

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                self.connections += 1
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._target)
                self._sockets += [here, there]
                self._run(self._pump, here, there)
                self._run(self._pump_back, there, here)

    def _pump(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(PIECE):
                if self.requested(here, data):
                    there.sendall(data)
            there.shutdown(socket.SHUT_WR)

    def _pump_back(self, there: socket.socket, here: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := there.recv(PIECE):
                self.answered(here)
                here.sendall(data)
            here.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()
