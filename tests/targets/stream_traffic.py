"""Counts the streams of environments, and their round trips."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from unittest import mock

from environments import BaseEnvironment
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.lifecycle import call_backend
from environments.shell.stream import Channel, Receiver, Stream, Terminal, as_stream


class Traffic:
    """Counters over all streams.

    Attributes:
        streams: Opened streams.
        turns: Round trips: writes that follow a read.
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


@contextlib.contextmanager
def count_traffic(backend: type[BaseEnvironment]) -> Iterator[Traffic]:
    """Count the traffic of all environments of a class that are created in the block."""
    traffic = Traffic()
    assert issubclass(backend, PersistentShellEnvironment)
    open_stream = backend.open_stream

    async def open_counted(
        env: PersistentShellEnvironment, argv: Sequence[str], terminal: Terminal | None = None
    ) -> Stream:
        stream = as_stream(await call_backend(partial(open_stream, env), argv, terminal))
        traffic.opened()
        answered_once = [True]
        write, begin = stream.write, stream.start

        def counted_write(data: bytes) -> None:
            if answered_once[0]:
                traffic.turned()
            answered_once[0] = False
            write(data)

        def start(receiver: Receiver) -> None:
            begin(_Counted(receiver, answered_once))

        stream.write, stream.start = counted_write, start  # type: ignore[method-assign]
        return stream

    with mock.patch.object(backend, "open_stream", open_counted):
        yield traffic


class _Counted:
    """A receiver that records the arrival of data."""

    def __init__(self, receiver: Receiver, answered_once: list[bool]) -> None:
        self._receiver = receiver
        self._answered_once = answered_once

    def data_received(self, channel: Channel, data: bytes) -> None:
        self._answered_once[0] = True
        self._receiver.data_received(channel, data)

    def stream_ended(self) -> None:
        self._receiver.stream_ended()
