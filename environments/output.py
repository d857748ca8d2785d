"""Output as it arrives: its channels, who is told of it, and how much of it is kept in a fixed amount of memory."""

from __future__ import annotations

import codecs
import inspect
import io
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Literal, NamedTuple, Protocol, runtime_checkable


class Channel(Enum):
    """Which of the two output channels of a process bytes came from."""

    __hash__ = object.__hash__  # see `Kind` of the messages

    STDOUT = 1
    STDERR = 2


class Sink(Protocol):
    """Takes output."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of a channel."""


class OutputSink(Protocol):
    """Takes the output of one command."""

    @property
    def separate(self) -> bool:
        """Whether stderr is wanted apart."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel; without `separate` all come from STDOUT."""


class AttachedProcess(Protocol):
    """A process that a `LoopSink` may talk to. Everything is called on the loop thread."""

    def feed(self, data: bytes) -> None:
        """Send bytes to its standard input, as it reads.

        Raises:
            BrokenPipeError: It has ended, or reads no more.
        """

    @property
    def is_flushed(self) -> bool:
        """Whether all of that is sent."""

    async def flush(self) -> None:
        """Wait until all of that is sent, or cannot be."""

    def pause(self) -> None:
        """Have no output taken from it."""

    def resume(self) -> None:
        """Take its output again."""


@runtime_checkable
class LoopSink(OutputSink, Protocol):
    """One that takes output on the loop thread, where it must return at once."""

    def attach(self, process: AttachedProcess) -> None:
        """Note whose output it takes."""


@runtime_checkable
class ReadableSink(OutputSink, Protocol):
    """One that the handle of a background process reads from, see `Process.read`."""

    def read_new(self, final: bool) -> str:
        """Return what has come since the last call.

        Args:
            final: Whether nothing more will come; else a character that is not complete yet stays.
        """


ChannelName = Literal["stdout", "stderr"]
OutputCallback = (
    Callable[[str], object]
    | Callable[[bytes], object]
    | Callable[[str, ChannelName], object]
    | Callable[[bytes, ChannelName], object]
)
TextCallback = Callable[[str], object]
LiveOutput = Callable[[str | bytes, ChannelName], object]
"""An `OutputCallback` that is told the channel, whether it wants to know or not."""


def channel_name(channel: Channel) -> ChannelName:
    """Return what a channel is called."""
    return "stderr" if channel is Channel.STDERR else "stdout"


def listener(on_output: object) -> LiveOutput | None:
    """Return what is to be told of output, in one form; it is asked which channel it comes from if it can take that."""
    if on_output is None:
        return None
    if not callable(on_output):
        raise TypeError(f"on_output is of type {type(on_output).__name__}; give a function that takes text")
    callback: Callable[..., object] = on_output
    how = _channel_parameter(callback)
    if how == "position":
        return callback
    if how == "name":
        return lambda piece, channel: callback(piece, channel=channel)
    return lambda piece, channel: callback(piece)


def _channel_parameter(callback: Callable[..., object]) -> Literal["position", "name"] | None:
    """Say how a function takes the channel: as a second argument that it needs, as `channel`, or not at all."""
    try:
        parameters = list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not tell
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "channel"):
        return "position"
    named = any(each.name == "channel" and each.kind is each.KEYWORD_ONLY for each in parameters)
    return "name" if named else None


_BLOCK = 64 * 1024
_CONTINUATION_LIMIT = 3
"""A UTF-8 sequence has at most this many bytes after its first."""


def byte_size(text: str) -> int:
    """Return the size of a text in UTF-8, where a lone surrogate counts as one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


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

    def with_count(self) -> str:
        """Return the text, with a line for the number of bytes that were left out of the output, if any were."""
        return self.with_notice(f"[{self.omitted_bytes} bytes of output omitted]")


class BoundedCapture:
    """Collects bytes up to a limit: the first half of it from the start, the second from the end."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
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

    def _trim_tail(self) -> None:
        """Cut the tail to its limit."""
        self._close_block()
        if (excess := self._tail_size - self._tail_limit) > 0:
            self._cut(excess)

    def _cut(self, size: int) -> None:
        """Leave out bytes at the beginning of the tail, which has as many."""
        self._drop(size)
        while size > 0:
            first = self._blocks.popleft()
            if len(first) > size:
                self._blocks.appendleft(first[size:])
            size -= len(first)

    def _cut_character(self) -> None:
        """Leave out what the tail begins with of a character that was cut through."""
        for _ in range(_CONTINUATION_LIMIT):
            if not self._blocks or self._blocks[0][0] & 0xC0 != 0x80:
                return
            self._cut(1)

    def text(self, binary: bool = False) -> CapturedText:
        """Return what was kept, decoded as UTF-8 with replacement. It is given up here, as both may be large.

        A character that the cut went through is left out and counted, so that the cut adds no replacement signs.

        Args:
            binary: Whether to return the bytes, too. Then a character that was cut through is left as it is.
        """
        if self._tail_size:
            self._trim_tail()
        head, self._head = self._head, bytearray()
        data = b"".join((head, *self._blocks)) if binary else None
        if not self._tail_size and not self._dropped:
            short = head.decode("utf-8", "replace")
            return CapturedText(short, 0, len(short), data)
        text = io.StringIO(newline="\n")  # to which pieces can be added without a copy of all
        first, size = codecs.utf_8_decode(head, "replace", binary and self._dropped > 0)
        text.write(first)
        omitted_at, incomplete = len(first), bytes(head[size:])
        del first
        head.clear()
        if self._dropped and not binary:
            self._dropped += len(incomplete)
            self._cut_character()
            incomplete = b""
        self._tail_size = 0
        live = LiveText()
        text.write(live.feed(incomplete))
        while self._blocks:
            text.write(live.feed(self._blocks.popleft()))
        text.write(live.feed(b"", final=True))
        whole = text.getvalue()
        return CapturedText(whole, self._dropped, omitted_at if self._dropped else len(whole), data)


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


class CallbackDecoder:
    """Decodes the pieces of an output for its caller, and calls the callback, whose results a task may have to await.

    Args:
        on_output: The callback.
        binary: Whether it takes bytes, and not text.
    """

    def __init__(self, on_output: LiveOutput, binary: bool) -> None:
        self._on_output = on_output
        self._live = {} if binary else {channel: LiveText() for channel in Channel}

    def __call__(self, channel: Channel, data: bytes) -> object:
        """Hand the next bytes of a channel to the callback, and return its result."""
        piece = self._live[channel].feed(data) if self._live else data
        return self._on_output(piece, channel_name(channel)) if piece else None

    def finish(self) -> list[object]:
        """Hand on what is left of a character that is not complete, and return the results of the callback."""
        rest = [(live.feed(b"", final=True), channel_name(channel)) for channel, live in self._live.items()]
        return [self._on_output(text, channel) for text, channel in rest if text]
