"""Keeping the head and the tail of an output of any size in a fixed amount of memory."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from environments.stream import Channel

_BLOCK = 64 * 1024
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
        # The tail is a row of blocks, of which the first are dropped: one buffer of it all would be copied for ever.
        self._blocks: deque[bytes] = deque()
        self._block = bytearray()
        self._tail_size = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the output."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail_size += len(data)
        if len(data) >= _BLOCK:
            self._close_block()
            self._blocks.append(data)
        elif data:
            self._block += data
            if len(self._block) >= _BLOCK:
                self._close_block()
        while self._blocks and self._tail_size - len(self._blocks[0]) >= self._tail_limit:
            self._drop(len(self._blocks.popleft()))

    def skip(self, size: int) -> None:
        """Count bytes that are left out before they come here. At least as many as are kept of the end follow."""
        dropped = self._tail_size
        self._blocks.clear()
        self._block.clear()
        self._drop(dropped)
        self._dropped += size

    def _close_block(self) -> None:
        if self._block:
            self._blocks.append(bytes(self._block))
            self._block.clear()

    def _drop(self, size: int) -> None:
        self._tail_size -= size
        self._dropped += size

    def _take_tail(self) -> bytearray:
        """Return the tail, cut to its limit, and give it up."""
        tail = bytearray()
        while self._blocks:
            tail += self._blocks.popleft()
        tail += self._block
        self._block.clear()
        excess = max(0, len(tail) - self._tail_limit)
        self._drop(excess)
        del tail[:excess]
        return tail

    def text(self) -> CapturedText:
        """Return what was kept, decoded as UTF-8 with replacement. It is given up here, as both may be large.

        A character that the cut went through is left out and counted, so that the cut adds no replacement signs.
        """
        tail = self._take_tail()
        head, self._head = self._head, bytearray()
        dropped = self._dropped
        if not dropped:
            head += tail
            text = head.decode("utf-8", "replace")
            return CapturedText(text, 0, len(text))
        cut = 0
        while cut < min(_CONTINUATION_LIMIT, len(tail)) and tail[cut] & 0xC0 == 0x80:
            cut += 1
        del tail[:cut]
        dropped += cut + _incomplete_bytes(bytes(head[-4:]))
        first = codecs.utf_8_decode(head, "replace", False)[0]
        head.clear()
        last = tail.decode("utf-8", "replace")
        tail.clear()
        return CapturedText(first + last, dropped, len(first))


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

    def skip(self, channel: Channel, size: int) -> None:
        """Count bytes of the middle that a channel does not bring, see `BoundedCapture.skip`."""
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is not None and not self._frozen:
            capture.skip(size)

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
