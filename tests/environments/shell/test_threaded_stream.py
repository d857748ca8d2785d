"""Threaded: a blocking stream on the loop thread, driven by two threads."""

from __future__ import annotations

import asyncio
import queue

from environments.loop import Call, run
from environments.output import Channel
from environments.shell.stream import Chunk, Discard, Terminal, Threaded


class Echo:
    """A blocking stream that echoes its input."""

    def __init__(self) -> None:
        self._chunks: queue.SimpleQueue[Chunk] = queue.SimpleQueue()

    def read(self, timeout: float | None) -> Chunk | None:
        try:
            return self._chunks.get(timeout=timeout)
        except queue.Empty:
            return None

    def write(self, data: bytes) -> None:
        self._chunks.put(Chunk(Channel.STDOUT, data))

    def close_write(self) -> None:
        self._chunks.put(Chunk(Channel.STDOUT, b""))

    def resize(self, terminal: Terminal) -> None:
        pass

    def exit_code(self, timeout: float) -> int | None:
        return 0

    def close(self) -> None:
        self.close_write()


class Kept(Discard):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, channel: Channel, data: bytes) -> None:
        self.data += data


def test_a_paused_stream_stays_paused_during_writes() -> None:
    async def work(_: Call[None]) -> None:
        stream, kept = Threaded(Echo()), Kept()
        stream.start(kept)
        stream.write(b"first")
        while kept.data != b"first":
            await asyncio.sleep(0.001)
        stream.pause()
        for _each in range(20):  # the read in progress may return one byte
            stream.write(b"x")
            await stream.drain()
        assert len(kept.data) <= len(b"first") + 1
        stream.resume()
        while kept.data != b"first" + b"x" * 20:
            await asyncio.sleep(0.001)
        await stream.close()
        assert stream.has_ended

    run(work)
