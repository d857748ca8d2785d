"""Output of commands: channels, sinks, callbacks, and captures of bounded size."""

from __future__ import annotations

import codecs
import inspect
import io
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Literal, NamedTuple, Protocol, runtime_checkable


class Channel(Enum):
    """The output channel of a process: stdout or stderr."""

    __hash__ = object.__hash__  # see `Kind` of the messages

    STDOUT = 1
    STDERR = 2


class Sink(Protocol):
    """Receives output."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Receive the next bytes of a channel."""


class OutputSink(Protocol):
    """Receives the output of one command."""

    @property
    def separate(self) -> bool:
        """True to receive stderr separately."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Receive the next bytes of a channel; without `separate` always of STDOUT."""


class AttachedProcess(Protocol):
    """The process of a `LoopSink`, for replies. All methods are called on the loop thread."""

    def feed(self, data: bytes) -> None:
        """Send bytes to the process's stdin, at the speed of its reads.

        Raises:
            BrokenPipeError: The process has ended or closed stdin.
        """

    @property
    def is_flushed(self) -> bool:
        """True once all fed bytes are sent."""

    async def flush(self) -> None:
        """Wait until all fed bytes are sent, or sending has failed."""

    def pause(self) -> None:
        """Pause reading the process's output."""

    def resume(self) -> None:
        """Resume reading the process's output."""


@runtime_checkable
class LoopSink(OutputSink, Protocol):
    """A sink called on the loop thread. It must return at once."""

    def attach(self, process: AttachedProcess) -> None:
        """Store the process of the output."""


@runtime_checkable
class ReadableSink(OutputSink, Protocol):
    """A sink read through the handle of a background process, see `Process.read`."""

    def read_new(self, final: bool) -> str:
        """Return the output since the last call.

        Args:
            final: True at the end of the output; otherwise an incomplete character stays.
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
"""An `OutputCallback` in its full form, always with the channel."""


def channel_name(channel: Channel) -> ChannelName:
    """Return the name of a channel."""
    return "stderr" if channel is Channel.STDERR else "stdout"


def full_callback(on_output: object) -> LiveOutput | None:
    """Return a callback in its full form; a callback without a parameter for the channel is wrapped."""
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
    """Return how a function receives the channel: as a second required argument, as `channel`, or not at all."""
    try:
        parameters = list(inspect.signature(callback).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "channel"):
        return "position"
    named = any(each.name == "channel" and each.kind is each.KEYWORD_ONLY for each in parameters)
    return "name" if named else None


_BLOCK = 64 * 1024
_CONTINUATION_LIMIT = 3
"""Maximum bytes of a UTF-8 sequence after the first."""


def byte_size(text: str) -> int:
    """Return the size of a text in UTF-8, counting a lone surrogate as one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class CapturedText(NamedTuple):
    """A captured output as text, possibly cut in the middle."""

    text: str
    omitted_bytes: int
    omitted_at: int
    """Index in `text` between head and tail; its length if uncut."""
    data: bytes | None = None
    """The captured bytes, if requested."""

    def with_notice(self, notice: str) -> str:
        """Return the text, with `notice` on a line of its own at the cut, if any."""
        if not self.omitted_bytes:
            return self.text
        head, tail = self.text[: self.omitted_at], self.text[self.omitted_at :]
        before = "" if not head or head.endswith("\n") else "\n"
        return f"{head}{before}{notice}\n{tail}"

    def with_count(self) -> str:
        """Return the text, with a line about the number of omitted bytes at the cut, if any."""
        return self.with_notice(f"[{self.omitted_bytes} bytes of output omitted]")


class BoundedCapture:
    """Collects output up to a limit: half from the beginning, half from the end."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        # The tail is a queue of blocks, dropped from its front: a single buffer would be copied again and again.
        self._blocks: deque[bytes] = deque()
        self._block = bytearray()
        self._tail_size = 0
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes of the output."""
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
        """Count bytes that were omitted upstream. At least a full tail must follow."""
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
        """Drop bytes from the front of the tail, which must hold as many."""
        self._drop(size)
        while size > 0:
            first = self._blocks.popleft()
            if len(first) > size:
                self._blocks.appendleft(first[size:])
            size -= len(first)

    def _cut_character(self) -> None:
        """Drop the rest of a character cut at the front of the tail."""
        for _ in range(_CONTINUATION_LIMIT):
            if not self._blocks or self._blocks[0][0] & 0xC0 != 0x80:
                return
            self._cut(1)

    def text(self, binary: bool = False) -> CapturedText:
        """Return the captured output, decoded as UTF-8 with replacement. Frees the buffers, as both may be large.

        A character split by the cut is dropped and counted, so that the cut adds no replacement characters.

        Args:
            binary: True to return the bytes too. A split character then stays.
        """
        if self._tail_size:
            self._trim_tail()
        head, self._head = self._head, bytearray()
        data = b"".join((head, *self._blocks)) if binary else None
        if not self._tail_size and not self._dropped:
            short = head.decode("utf-8", "replace")
            return CapturedText(short, 0, len(short), data)
        text = io.StringIO(newline="\n")  # appends without copying
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
    """Return the number of bytes of an incomplete character at the end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(end, final=False)
    return len(decoder.getstate()[0])


class LiveText:
    """Decodes output piece by piece. A split character is returned with its last piece."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes, final: bool = False) -> str:
        """Return the text completed by `data`."""
        return self._decoder.decode(data, final)


class CallbackDecoder:
    """Decodes output for the caller's callback, whose results a task may await.

    Args:
        on_output: The callback.
        binary: True if the callback receives bytes instead of text.
    """

    def __init__(self, on_output: LiveOutput, binary: bool) -> None:
        self._on_output = on_output
        self._live = {} if binary else {channel: LiveText() for channel in Channel}

    def __call__(self, channel: Channel, data: bytes) -> object:
        """Pass the next bytes of a channel to the callback, and return its result."""
        piece = self._live[channel].feed(data) if self._live else data
        return self._on_output(piece, channel_name(channel)) if piece else None

    def finish(self) -> list[object]:
        """Pass incomplete characters to the callback, and return its results."""
        rest = [(live.feed(b"", final=True), channel_name(channel)) for channel, live in self._live.items()]
        return [self._on_output(text, channel) for text, channel in rest if text]
