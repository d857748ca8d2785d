"""A local backend whose streams have a chosen fault."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from environments.loop import current
from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.framing import _FIELD_COUNTS, Kind
from environments.shell.stream import Channel, Stream, Terminal

PAUSE = 0.002
SPLIT = 2000
"""Bytes of each read that `split` delivers one by one. A process table of a loaded machine has hundreds of thousands:
one by one, it would take as long as a time-out."""
_MARK = re.compile(rb"\x1e[0-9a-f]{16} ([A-Z])")


@dataclass(frozen=True, slots=True)
class StreamFault:
    """A fault of a stream.

    Args:
        kind: `cut output` and `cut input` end the direction at `position`. `split` delivers single bytes, for a while.
            `delay` delivers everything late. `repeat` delivers every message twice, and the last `position` messages
            again at each write.
        stream: Number of the faulty stream in the order of opening; None for all streams.
        position: Bytes in the direction since the fault was armed.
    """

    kind: Literal["none", "cut output", "cut input", "split", "delay", "repeat"] = "none"
    stream: int | None = None
    position: int = 0


class FaultyStream(Stream):
    """A stream with a fault."""

    def __init__(self, stream: Stream, fault: StreamFault, armed: bool) -> None:
        self._stream = stream
        self._fault = fault
        self._armed = armed
        self._left = fault.position
        self._is_cut = False
        self._messages = {channel: MessageRepeater() for channel in Channel}

    def arm(self) -> None:
        self._armed = True

    @property
    def _kind(self) -> str:
        return self._fault.kind if self._armed else "none"

    def _begin(self) -> None:
        self._stream.start(self)

    def data_received(self, channel: Channel, data: bytes) -> None:
        if self._is_cut:
            return
        # Also before the fault is armed: the repeater has to see where messages begin.
        units = self._messages[channel].feed(data, self._armed) if self._fault.kind == "repeat" else [data]
        if self._kind == "split":
            units = [data[index : index + 1] for index in range(min(len(data), SPLIT))]
            units.append(data[SPLIT:])
        elif self._kind == "cut output":
            units = [data[: self._left]]
            self._left -= len(data)
            self._is_cut = self._left <= 0
        for unit in filter(None, units):
            if self._fault.kind == "delay":
                current().loop.call_later(PAUSE if self._armed else 0, self.receiver.data_received, channel, unit)
            else:
                self.receiver.data_received(channel, unit)
        if self._is_cut:
            self._end()

    def stream_ended(self) -> None:
        if self._fault.kind == "delay":
            current().loop.call_later(2 * PAUSE, self._end)
        else:
            self._end()

    def write(self, data: bytes) -> None:
        if self._is_cut:
            raise BrokenPipeError
        if self._kind == "cut input":
            if len(data) > self._left:
                # A shell runs a last line without its line break at the end of input. On real links the line break is
                # alone in a packet once in 32 K, and the link would have to drop just there: two bytes are cut.
                self._stream.write(data[: min(self._left, len(data) - 2)])
                self._left = 0
                self._stream.close_write()
                raise BrokenPipeError
            self._left -= len(data)
        elif self._kind == "split":
            for index in range(0, len(data), max(1, len(data) // 20)):
                self._stream.write(data[index : index + max(1, len(data) // 20)])
            return
        elif self._kind == "repeat":
            for channel, messages in self._messages.items():
                for message in messages.stale(self._fault.position):
                    self.receiver.data_received(channel, message)
        self._stream.write(data)

    async def drain(self) -> None:
        await self._stream.drain()

    def close_write(self) -> None:
        self._stream.close_write()

    def pause(self) -> None:
        self._stream.pause()

    def resume(self) -> None:
        self._stream.resume()

    async def resize(self, terminal: Terminal) -> None:
        await self._stream.resize(terminal)

    async def exit_code(self, timeout: float) -> int | None:
        return None if self._is_cut else await self._stream.exit_code(timeout)

    async def close(self) -> None:
        await self._stream.close()
        self._end()


class MessageRepeater:
    """Splits output into whole messages, repeats them on demand, and stores them."""

    def __init__(self) -> None:
        self._pending = b""
        self._seen: list[bytes] = []

    def feed(self, data: bytes, twice: bool) -> list[bytes]:
        data, self._pending = self._pending + data, b""
        units = []
        while found := _MARK.search(data):
            end = found.end()
            for _ in range(_FIELD_COUNTS[Kind(found[1])]):
                end = data.find(b"\0", end) + 1
                if not end:
                    self._pending = data[found.start() :]
                    return [*units, data[: found.start()]]
            message = data[found.start() : end]
            self._seen.append(message)
            units += [data[: found.start()], *[message] * (2 if twice else 1)]
            data = data[end:]
        return [*units, data]

    def stale(self, count: int) -> list[bytes]:
        """Return the last messages."""
        return self._seen[-count:] if count else []


class FaultyLocal(PersistentShellEnvironment):
    """The base class's own methods over streams, one or all of them faulty."""

    same_machine = True

    def __init__(self, settings: EnvironmentSettings, fault: StreamFault, armed: bool = True) -> None:
        self._fault = fault
        self._armed = armed
        self._streams: list[FaultyStream] = []
        super().__init__(settings)

    def arm(self) -> None:
        """Arm the fault."""
        self._armed = True
        for stream in self._streams:
            stream.arm()

    def start_target(self) -> None:
        pass

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        has_it = self._fault.stream in (None, len(self._streams))
        stream = FaultyStream(
            ChildStream(argv, terminal=terminal), self._fault if has_it else StreamFault(), self._armed
        )
        self._streams.append(stream)
        return stream

    def stop_target(self) -> None:
        pass
