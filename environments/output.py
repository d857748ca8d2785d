"""Keeping the head and the tail of an output of any size in a fixed amount of memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from environments.stream import Channel

_CONTINUATION_LIMIT = 3
"""A UTF-8 sequence has at most this many bytes after its first."""


@dataclass(frozen=True, slots=True)
class CapturedText:
    """What was kept of an output, as text."""

    text: str
    omitted_bytes: int
    omitted_at: int
    """The index in `text` between the head and the tail; its length when nothing was left out."""

    def with_notice(self, notice: str) -> str:
        """Return the text, with `notice` on a line of its own where bytes were left out, if any were."""
        if not self.omitted_bytes:
            return self.text
        head, tail = self.text[: self.omitted_at], self.text[self.omitted_at :]
        before = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{before}{notice}\n{tail}"


class BoundedCapture:
    """Collects bytes up to a limit: the first half of it from the start, the second from the end."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) > self._tail_limit:
            excess = len(data) - self._tail_limit
            self._dropped += len(self._tail) + excess
            self._tail = bytearray(data[excess:])
            return
        self._tail += data
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]  # moves a pointer and copies nothing
            self._dropped += excess

    def raw(self) -> bytes:
        """Return the bytes kept, head and tail joined."""
        return bytes(self._head + self._tail)

    def text(self) -> CapturedText:
        """Return what was kept, decoded as UTF-8 with replacement.

        A character that the cut went through is left out and counted, so that the cut adds no replacement signs.
        """
        if not self._dropped:
            text = self.raw().decode("utf-8", "replace")
            return CapturedText(text, 0, len(text))
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head), final=False)
        cut = 0
        while cut < min(_CONTINUATION_LIMIT, len(self._tail)) and self._tail[cut] & 0xC0 == 0x80:
            cut += 1
        omitted = self._dropped + cut + _incomplete_bytes(bytes(self._head[-4:]))
        return CapturedText(head + self._tail[cut:].decode("utf-8", "replace"), omitted, len(head))


def _incomplete_bytes(end: bytes) -> int:
    """Return how many bytes at the end of `end` begin a character without completing it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(end, final=False)
    return len(decoder.getstate()[0])


class LiveText:
    """Decodes output piece by piece; a character split between two pieces comes with the second."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return the text that `data` completes."""
        return self._decoder.decode(data, final)


class OutputSink(Protocol):
    """Takes the output of one command."""

    @property
    def separate(self) -> bool:
        """Whether stderr is wanted apart."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel; without `separate` all come from STDOUT."""

    def freeze(self) -> None:
        """Ignore the rest: what a command prints while it is being ended is not its output."""


class Nowhere:
    """Drops what it is given."""

    separate = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Drop it."""

    def freeze(self) -> None:
        """Go on dropping it."""


class CommandOutput:
    """Where the output of one command goes: into bounded captures, and live to a callback."""

    def __init__(self, limit: int, separate: bool, on_output: Callable[[str], object] | None = None) -> None:
        self.separate = separate
        self.stdout = BoundedCapture(limit)
        self.stderr = BoundedCapture(limit) if separate else None
        self._on_output = on_output
        self._live = {channel: LiveText() for channel in Channel}
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take output of one channel. The callback's own errors are raised."""
        if self._frozen:
            return
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is None:
            return
        capture.add(data)
        if self._on_output and (text := self._live[channel].feed(data)):
            self._on_output(text)

    def freeze(self) -> None:
        """Keep what there is and ignore the rest, see `OutputSink`."""
        self._frozen = True

    def finish(self) -> None:
        """Pass on what the callback is still owed."""
        if not self._on_output:
            return
        for live in self._live.values():
            if text := live.feed(b"", final=True):
                self._on_output(text)
