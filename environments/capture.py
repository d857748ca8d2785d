"""Keeping the head and the tail of an output of any size in a fixed amount of memory."""

from __future__ import annotations

import codecs
from collections import deque
from typing import NamedTuple

_BLOCK = 64 * 1024
_CONTINUATION_LIMIT = 3
"""A UTF-8 sequence has at most this many bytes after its first."""


class CapturedText(NamedTuple):
    """What was kept of an output, as text."""

    text: str
    omitted_bytes: int
    omitted_at: int
    """The index in `text` between the head and the tail; its length when nothing was left out."""
    data: bytes | None = None
    """The same as it came, if that was asked for."""

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

    def text(self, binary: bool = False) -> CapturedText:
        """Return what was kept, decoded as UTF-8 with replacement. It is given up here, as both may be large.

        A character that the cut went through is left out and counted, so that the cut adds no replacement signs.

        Args:
            binary: Whether to return the bytes, too. Then a character that was cut through is left as it is.
        """
        tail = self._take_tail()
        head, self._head = self._head, bytearray()
        dropped = self._dropped
        if not dropped:
            head += tail
            text = head.decode("utf-8", "replace")
            return CapturedText(text, 0, len(text), bytes(head) if binary else None)
        if binary:
            text = head.decode("utf-8", "replace")
            return CapturedText(text + tail.decode("utf-8", "replace"), dropped, len(text), bytes(head + tail))
        cut = 0
        while cut < min(_CONTINUATION_LIMIT, len(tail)) and tail[cut] & 0xC0 == 0x80:
            cut += 1
        del tail[:cut]
        dropped += cut + incomplete_bytes(bytes(head[-4:]))
        first = codecs.utf_8_decode(head, "replace", False)[0]
        head.clear()
        last = tail.decode("utf-8", "replace")
        tail.clear()
        return CapturedText(first + last, dropped, len(first))


def incomplete_bytes(end: bytes) -> int:
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
