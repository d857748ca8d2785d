"""A proxy to an engine that holds back a chosen request or response."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

from targets.engine_link import EngineLink


class HeldLink(EngineLink):
    """An `EngineLink` with `hold` and `release`."""

    def __init__(self, path: Path, target: str) -> None:
        self._words, self._answers = b"", False
        self.holds = threading.Event()
        """Set while a request or response is held back."""
        self._released = threading.Event()
        self._held: set[socket.socket] = set()
        super().__init__(path, target)

    def hold(self, words: str, *, answers: bool = False) -> None:
        """Hold back the next request with these words, or the response, until `release`."""
        self._answers, self._words = answers, words.encode()

    def release(self) -> None:
        """Forward everything from now on."""
        self._words = b""
        self._released.set()

    def requested(self, here: socket.socket, data: bytes) -> bool:
        if self._words and self._words in data:
            self._words = b""
            self._held.add(here)
            self.holds.set()
            if not self._answers:
                self._released.wait()
        return True

    def answered(self, here: socket.socket) -> None:
        if self._answers and here in self._held:
            self._released.wait()

    def __exit__(self, *ended: object) -> None:
        self.release()
        super().__exit__(*ended)
