"""A proxy to an engine. It refuses chosen requests, as a busy engine does."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from targets.engine_link import EngineLink

_REQUEST = re.compile(rb"^(GET|POST|DELETE|PUT|HEAD) (?:/v[0-9.]+)?(\S+) HTTP", re.MULTILINE)
_IDS = re.compile(r"[0-9a-f]{64}|\?.*")


class RefusingLink(EngineLink):
    """An `EngineLink` with a record of requests and with refusals on demand."""

    def __init__(self, path: Path, target: str) -> None:
        self.requests: list[str] = []
        """Requests such as `POST /containers/create`, without ids."""
        self._refusals, self._status, self._words = 0, 503, ""
        super().__init__(path, target)

    def refuse(self, words: str, times: int, status: int = 503) -> None:
        """Refuse a number of requests with these words in their path."""
        self._words, self._refusals, self._status = words, times, status

    def requested(self, here: socket.socket, data: bytes) -> bool:
        asked = [f"{verb.decode()} {_IDS.sub('', path.decode())}" for verb, path in _REQUEST.findall(data)]
        self.requests += asked
        if self._refusals and any(self._words in each for each in asked):
            self._refusals -= 1
            here.sendall(self._refusal())
            return False
        return True

    def _refusal(self) -> bytes:
        body = json.dumps({"message": "the engine has too many requests"}).encode()
        head = f"HTTP/1.1 {self._status} Busy\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body
