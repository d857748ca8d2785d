"""Records the output and the end of a stream, on the loop thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from environments.output import Channel
from environments.shell.stream import Stream

AnyStream = TypeVar("AnyStream", bound=Stream)

LIMIT = 60.0
"""Time-out of a wait in seconds."""


class StreamRecorder:
    """A `Receiver` with the data of each channel."""

    def __init__(self) -> None:
        self.data = dict.fromkeys(Channel, b"")
        self.ends = 0
        self._changed = asyncio.Event()

    def data_received(self, channel: Channel, data: bytes) -> None:
        assert not self.ends
        self.data[channel] += data
        self._changed.set()

    def stream_ended(self) -> None:
        self.ends += 1
        self._changed.set()

    @property
    def out(self) -> bytes:
        return self.data[Channel.STDOUT]

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(LIMIT):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


async def converse(stream: AnyStream, conversation: Callable[[AnyStream, StreamRecorder], Awaitable[None]]) -> None:
    """Run a conversation on a stream, and close it twice. The stream reports one end, and then refuses writes."""
    recorder = StreamRecorder()
    stream.start(recorder)
    try:
        await conversation(stream, recorder)
    finally:
        await stream.close()
    await stream.close()
    assert recorder.ends == 1
    assert stream.has_ended and stream.ended.done()
    with pytest.raises(BrokenPipeError):
        stream.write(b"x")
