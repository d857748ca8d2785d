"""What a stream brings, taken on the loop thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from environments.output import Channel

LIMIT = 60.0
"""Seconds by which everything must have come."""


class Heard:
    """What a stream brings, see `Receiver`."""

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
