"""A link to an engine that is too busy: it answers some requests by itself, as a busy engine does."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from pathlib import Path
from typing import Self

PIECE = 64 * 1024
_REQUEST = re.compile(rb"^(GET|POST|DELETE|PUT|HEAD) (?:/v[0-9.]+)?(\S+) HTTP", re.MULTILINE)
_IDS = re.compile(r"[0-9a-f]{64}|\?.*")


class RefusingLink:
    """A Unix socket that leads to the engine's, and knows what it was asked for.

    Args:
        path: Where it is to be.
        target: The engine's.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.requests: list[str] = []
        """What was asked for, such as `POST /containers/create`, without ids."""
        self.connections = 0
        self._target = target
        self._refusals, self._status, self._words = 0, 503, ""
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._sockets: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def refuse(self, words: str, times: int, status: int = 503) -> None:
        """Answer the next requests with these words in their path with an error of the engine."""
        self._words, self._refusals, self._status = words, times, status

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
                asked = [f"{verb.decode()} {_IDS.sub('', path.decode())}" for verb, path in _REQUEST.findall(data)]
                self.requests += asked
                if self._refusals and any(self._words in each for each in asked):
                    self._refusals -= 1
                    here.sendall(self._refusal())
                    continue
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)

    def _refusal(self) -> bytes:
        body = json.dumps({"message": "the engine has too many requests"}).encode()
        head = f"HTTP/1.1 {self._status} Busy\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _pump_back(self, there: socket.socket, here: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := there.recv(PIECE):
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
