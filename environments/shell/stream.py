"""What a backend offers: a duplex byte stream to a process in the target.

Two kinds exist. A `Stream` is driven by the loop thread: it hands what arrives to a receiver, and never waits. A
`BlockingStream` is read by calls that wait; `Threaded` makes a `Stream` of one, at the price of two threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from environments.log import logger
from environments.loop import current, in_worker
from environments.output import Channel
from environments.process import Terminal

__all__ = ["BlockingStream", "Channel", "Chunk", "Receiver", "SkippingStream", "Stream", "Terminal", "as_stream"]

log = logger(__name__)

READ_SLICE = 1.0
"""Seconds that a blocking stream is read for at a time."""
ON_THE_WAY = 16
"""Pieces that a reading thread has handed to the loop thread and that this has not taken yet."""


class Receiver(Protocol):
    """Takes what a process prints. Called on the loop thread; it must return at once."""

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel."""

    def stream_ended(self) -> None:
        """Note that the process or the link has ended, and that nothing more comes."""


class Discard:
    """Drops what is printed."""

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Drop it, see `Receiver`."""

    def stream_ended(self) -> None:
        """Do nothing, see `Receiver`."""


@runtime_checkable
class SkippingStream(Protocol):
    """A stream over which the middle of a large output need not be brought."""

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """From here on bring the first and the last `size` bytes of each channel, and not what is between them.

        Args:
            size: Bytes.
            on_skip: Receives how many bytes were left out of which channel.
        """

    def keep_all(self) -> None:
        """Bring everything again."""


class Stream(ABC):
    """A process in the target, as its standard streams. Everything but the constructor is called on the loop thread.

    Reading begins with `start`. A subclass calls `_received` and `_ended`.
    """

    receiver: Receiver = Discard()
    """Takes what arrives. It may be replaced at any time."""
    has_ended = False
    """True once nothing more comes."""
    is_bash = False
    """True if the process is known to be a bash that has all that is needed."""
    skipper: SkippingStream | None = None
    """Leaves out the middle of a large output, where the stream can."""

    def start(self, receiver: Receiver) -> None:
        """Begin to read."""
        self.receiver = receiver
        self.ended: asyncio.Future[None] = current().loop.create_future()
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Begin to read, see `start`."""

    def _end(self) -> None:
        """Note that nothing more comes, and tell the receiver, once."""
        if not self.has_ended:
            self.has_ended = True
            self.ended.set_result(None)
            self.receiver.stream_ended()

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send bytes. What does not go at once is sent as the process reads.

        Raises:
            BrokenPipeError: The process no longer reads, or the link is gone.
        """

    @property
    def is_sent(self) -> bool:
        """Whether what was written has been sent, as far as that is known."""
        return False

    async def drain(self) -> None:  # noqa: B027
        """Wait until what was written has been sent, or cannot be."""

    @abstractmethod
    def close_write(self) -> None:
        """Let the process see end of file on its standard input, behind what was written."""

    @abstractmethod
    def pause(self) -> None:
        """Stop reading until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Read on."""

    def rest(self, *, reports: bool) -> None:  # noqa: B027
        """Note that nothing is waited for until something is written, or `resume` is called.

        A stream that polls stops polling. One whose channels are apart may leave standard error unread for a moment.

        Args:
            reports: Whether a state report is still to come, in several writes.
        """

    def unread(self) -> int | None:
        """Return how many written bytes the process has left unread, also when it has ended; None if unknown."""
        return None

    async def resize(self, terminal: Terminal) -> None:  # noqa: B027
        """Change the size of the process's terminal, if it has one."""

    @abstractmethod
    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended (128 + N for signal N), or None if `timeout` seconds did not bring it."""

    @abstractmethod
    async def close(self) -> None:
        """Give up the stream and free what it holds here. A local child is killed and reaped."""


class Chunk(NamedTuple):
    """Bytes that arrived. No bytes at all means that the process has ended and nothing more will come."""

    channel: Channel
    data: bytes


class BlockingStream(Protocol):
    """A process in the target, as its standard streams. One thread reads; any thread may write or close."""

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Returns:
            What arrived, an empty chunk once the process has ended, or None when the time was up.
        """

    def write(self, data: bytes) -> None:
        """Send all of `data` to the process.

        Raises:
            BrokenPipeError: The process no longer reads, or the link is gone.
        """

    def close_write(self) -> None:
        """Let the process see end of file on its standard input."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the process's terminal, if it has one."""

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended (128 + N for signal N), or None if `timeout` seconds did not bring it."""

    def close(self) -> None:
        """Give up the stream and free what it holds here. A local child is killed and reaped."""


class Threaded(Stream):
    """A blocking stream, read by one thread and written by another.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: BlockingStream) -> None:
        self._stream = stream
        self._on_the_way = threading.Semaphore(ON_THE_WAY)
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_closed = self._is_broken = False
        self._sending: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._unsent = 0
        self._sent = asyncio.Event()
        self._writer: threading.Thread | None = None

    def _begin(self) -> None:
        threading.Thread(target=self._read, name="hermes-read", daemon=True).start()

    def _read(self) -> None:
        soon = current().soon
        try:
            while not self._is_closed:
                self._on_the_way.acquire()
                self._may_read.wait()
                chunk = self._stream.read(READ_SLICE)
                if chunk is None:
                    self._on_the_way.release()
                elif chunk.data:
                    soon(self._received, chunk.channel, chunk.data)
                else:
                    break
        finally:
            soon(self._end)

    def _received(self, channel: Channel, data: bytes) -> None:
        if not self._is_closed:
            self.receiver.data_received(channel, data)
        self._on_the_way.release()

    def write(self, data: bytes) -> None:
        """Send bytes, see `Stream`."""
        if self._is_closed or self._is_broken:
            raise BrokenPipeError("the stream is closed")
        self._send(lambda: self._stream.write(data))

    def close_write(self) -> None:
        """Send end of file, see `Stream`."""
        if not self._is_closed:
            self._send(self._stream.close_write)

    def _send(self, send: Callable[[], object]) -> None:
        self._unsent += 1
        self._sent.clear()
        self._sending.put(send)
        if self._writer is None:
            self._writer = threading.Thread(target=self._write, name="hermes-write", daemon=True)
            self._writer.start()

    def _write(self) -> None:
        thread = current()
        while send := self._sending.get():
            try:
                send()
            except Exception as error:  # the process reads no more, or its target is gone; the reader meets the end
                log.debug("input could not be sent: %s", error)
                self._is_broken = True
            thread.soon(self._note_sent)

    def _note_sent(self) -> None:
        self._unsent -= 1
        if self._unsent == 0 or self._is_broken:
            self._sent.set()

    async def drain(self) -> None:
        """Wait until all is sent, see `Stream`."""
        if self._unsent and not self._is_broken:
            await self._sent.wait()

    def pause(self) -> None:
        """Stop reading, see `Stream`."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read on, see `Stream`."""
        self._may_read.set()

    async def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal, see `Stream`. It comes behind what was written."""
        self._send(lambda: self._stream.resize(terminal))

    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream`."""
        return await in_worker(self._stream.exit_code, timeout)

    async def close(self) -> None:
        """Give up the stream, see `Stream`."""
        self._is_closed = True
        self._may_read.set()
        self._sent.set()
        self._sending.put(None)
        with contextlib.suppress(OSError):
            await in_worker(self._stream.close)
        self._end()


def as_stream(stream: Stream | BlockingStream) -> Stream:
    """Return a stream of the loop's kind."""
    return stream if isinstance(stream, Stream) else Threaded(stream)
