"""A link to a server that holds back what it is told to, such as an engine's answer to one request."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Self

PIECE = 64 * 1024


class HeldLink:
    """A Unix socket that leads to another one.

    Args:
        path: Where it is to be.
        target: The other one.
    """

    def __init__(self, path: Path, target: str) -> None:
        self._target = target
        self._words, self._answers = b"", False
        self.holds = threading.Event()
        """Set when something is held back."""
        self._released = threading.Event()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._sockets: list[socket.socket] = [self._server]
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def hold(self, words: str, *, answers: bool = False) -> None:
        """Hold back the next request with these words, or the answer to it, until `release`."""
        self._answers, self._words = answers, words.encode()

    def release(self) -> None:
        """Let everything through."""
        self._words = b""
        self._released.set()

    def _run(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._server.accept()
                there = socket.socket(socket.AF_UNIX)
                there.connect(self._target)
                self._sockets += [here, there]
                held = threading.Event()
                self._run(self._pump, here, there, held)
                self._run(self._pump_back, there, here, held)

    def _pump(self, here: socket.socket, there: socket.socket, held: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(PIECE):
                if self._words and self._words in data:
                    self._words = b""
                    held.set()
                    self.holds.set()
                    if not self._answers:
                        self._released.wait()
                there.sendall(data)
            there.shutdown(socket.SHUT_WR)

    def _pump_back(self, there: socket.socket, here: socket.socket, held: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := there.recv(PIECE):
                if held.is_set() and self._answers:
                    self._released.wait()
                here.sendall(data)
            here.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._sockets:
            end.close()
