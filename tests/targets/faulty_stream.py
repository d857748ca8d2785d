"""This machine over streams with a fault of choice."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.framing import _FIELD_COUNTS, Kind
from environments.shell.stream import Channel, Chunk, Stream, Terminal

PAUSE = 0.002
SPLIT = 2000
"""How many bytes of what comes at once are brought one by one. A table of all processes of a loaded machine, which is
hundreds of thousands, would take as long as a target that does not answer."""
_MARK = re.compile(rb"\x1e[0-9a-f]{16} ([A-Z])")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a stream.

    Args:
        kind: `cut output` and `cut input` end that direction at a position; `split` brings single bytes, for a while;
            `delay` brings everything late; `repeat` brings every message twice, and once more what came last, or all
            that has ever come, when the next thing is written.
        stream: Which of an environment's streams has it, in the order in which they were opened; None is all of them.
        position: Bytes in that direction, counted from the time when the fault was armed.
    """

    kind: Literal["none", "cut output", "cut input", "split", "delay", "repeat"] = "none"
    stream: int | None = None
    position: int = 0


class FaultyStream:
    """A stream with a fault, see `Stream`."""

    def __init__(self, stream: Stream, fault: Fault, armed: bool) -> None:
        self._stream = stream
        self._fault = fault
        self._armed = armed
        self._left = fault.position
        self._is_cut = False
        self._ready: deque[Chunk] = deque()
        self._messages = {channel: MessageRepeater() for channel in Channel}

    def arm(self) -> None:
        self._armed = True

    @property
    def _kind(self) -> str:
        return self._fault.kind if self._armed else "none"

    def read(self, timeout: float | None) -> Chunk | None:
        if self._is_cut:
            return Chunk(Channel.STDOUT, b"")
        if self._ready:
            return self._ready.popleft()
        chunk = self._stream.read(timeout)
        if chunk is None or not chunk.data:
            return chunk
        # Also while it is not armed, as it has to know where messages begin.
        units = (
            self._messages[chunk.channel].feed(chunk.data, self._armed)
            if self._fault.kind == "repeat"
            else [chunk.data]
        )
        if self._kind == "delay":
            time.sleep(PAUSE)
        elif self._kind == "split":
            units = [chunk.data[index : index + 1] for index in range(min(len(chunk.data), SPLIT))]
            units.append(chunk.data[SPLIT:])
        elif self._kind == "cut output":
            units = [chunk.data[: self._left]]
            self._left -= len(chunk.data)
            self._is_cut = self._left <= 0
        self._ready.extend(Chunk(chunk.channel, unit) for unit in units if unit)
        if self._ready:
            return self._ready.popleft()
        return Chunk(Channel.STDOUT, b"") if self._is_cut else None

    def write(self, data: bytes) -> None:
        if self._kind == "cut input":
            if len(data) > self._left:
                # A last line of which only the line break is missing is run by every shell as it meets the end. That
                # break has a packet of its own once in 32 K on real links, and then the link must drop just there.
                self._stream.write(data[: min(self._left, len(data) - 2)])
                self._left = 0
                self._stream.close_write()
                raise BrokenPipeError
            self._left -= len(data)
        elif self._kind == "split":
            for index in range(0, len(data), max(1, len(data) // 20)):
                self._stream.write(data[index : index + max(1, len(data) // 20)])
            return
        elif self._kind == "delay":
            time.sleep(PAUSE)
        elif self._kind == "repeat":
            for channel, messages in self._messages.items():
                self._ready.extend(Chunk(channel, message) for message in messages.stale(self._fault.position))
        self._stream.write(data)

    def close_write(self) -> None:
        self._stream.close_write()

    def resize(self, terminal: Terminal) -> None:
        self._stream.resize(terminal)

    def exit_code(self, timeout: float) -> int | None:
        return None if self._is_cut else self._stream.exit_code(timeout)

    def close(self) -> None:
        self._stream.close()


class MessageRepeater:
    """Brings each message whole, and twice if it is to, and remembers it."""

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
        """Return the last so many messages."""
        return self._seen[-count:] if count else []


class FaultyLocal(PersistentShellEnvironment):
    """Takes everything from the base class, over streams of which one, or all, have a fault."""

    same_machine = True

    def __init__(self, settings: EnvironmentSettings, fault: Fault, armed: bool = True) -> None:
        self._fault = fault
        self._armed = armed
        self._streams: list[FaultyStream] = []
        super().__init__(settings)

    def arm(self) -> None:
        """Begin to have the fault."""
        self._armed = True
        for stream in self._streams:
            stream.arm()

    def start_target(self) -> None:
        """There is nothing to bring up."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        has_it = self._fault.stream in (None, len(self._streams))
        stream = FaultyStream(ChildStream(argv, terminal=terminal), self._fault if has_it else Fault(), self._armed)
        self._streams.append(stream)
        return stream

    def stop_target(self) -> None:
        """There is nothing to take down."""
