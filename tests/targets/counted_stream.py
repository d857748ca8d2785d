"""Counting the streams of an environment, and the round trips over them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from unittest import mock

from environments import BaseEnvironment
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Chunk, Stream, Terminal


class Traffic:
    """What went over all streams together.

    Attributes:
        streams: How many were opened.
        turns: How often something was sent behind an answer: what a caller waits for is one of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.streams = self.turns = 0

    def opened(self) -> None:
        with self._lock:
            self.streams += 1

    def turned(self) -> None:
        with self._lock:
            self.turns += 1

    def counts(self) -> dict[str, float]:
        with self._lock:
            return {"streams": self.streams, "round_trips": self.turns}


class CountedStream:
    """A stream, see `Stream`, that tells what goes over it. What else it can do, it does as it did."""

    def __init__(self, stream: Stream, traffic: Traffic) -> None:
        self._stream = stream
        self._traffic = traffic
        self._answered = True
        traffic.opened()

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def read(self, timeout: float | None) -> Chunk | None:
        chunk = self._stream.read(timeout)
        if chunk and chunk.data:
            self._answered = True
        return chunk

    def write(self, data: bytes) -> None:
        if self._answered:
            self._traffic.turned()
        self._answered = False
        self._stream.write(data)


@contextlib.contextmanager
def counted(backend: type[BaseEnvironment]) -> Iterator[Traffic]:
    """Count what goes over the streams of all environments of a class that are made in the block."""
    traffic = Traffic()
    assert issubclass(backend, PersistentShellEnvironment)
    open_stream = backend.open_stream

    def open_counted(env: PersistentShellEnvironment, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return CountedStream(open_stream(env, argv, terminal), traffic)  # type: ignore[return-value]

    with mock.patch.object(backend, "open_stream", open_counted):
        yield traffic
