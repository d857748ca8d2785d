"""Streams: the interface of a backend, a duplex byte stream to a process in the target.

There are two kinds. A `Stream` is driven by the loop thread: it delivers received bytes to a receiver, and never
blocks. A `BlockingStream` has blocking calls; `Threaded` wraps it as a `Stream`, at the cost of two threads.
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
"""Seconds per blocking read."""
ON_THE_WAY = 16
"""Pieces delivered by a reading thread before the loop thread has processed them (back-pressure)."""


class Receiver(Protocol):
    """Receives a process's output. Called on the loop thread; must return at once."""

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Process the next bytes of one channel."""

    def stream_ended(self) -> None:
        """Handle the end of the process or the link. No call follows."""


class Discard:
    """Drops all output."""

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Drop the bytes, see `Receiver`."""

    def stream_ended(self) -> None:
        """Do nothing, see `Receiver`."""


@runtime_checkable
class SkippingStream(Protocol):
    """A stream that can leave out the middle of a large output."""

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """From here on, transfer only the first and the last `size` bytes of each channel.

        Args:
            size: Bytes.
            on_skip: Called with a channel and the count of bytes left out.
        """

    def keep_all(self) -> None:
        """Transfer all bytes again."""


class Stream(ABC):
    """A process in the target, as its standard streams. All methods but the constructor run on the loop thread.

    Reading begins with `start`. A subclass delivers bytes to `receiver`, and calls `_end`.
    """

    receiver: Receiver = Discard()
    """Receives the output. May be replaced at any time."""
    has_ended = False
    """True once no more output can arrive."""
    is_bash = False
    """True if the process is known to be a supported bash."""
    skipper: SkippingStream | None = None
    """Leaves out the middle of a large output, if the stream supports this."""

    def start(self, receiver: Receiver) -> None:
        """Begin to read."""
        self.receiver = receiver
        self.ended: asyncio.Future[None] = current().loop.create_future()
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Begin to read, see `start`."""

    def _end(self) -> None:
        """Mark the end of the stream, and call the receiver once."""
        if not self.has_ended:
            self.has_ended = True
            self.ended.set_result(None)
            self.receiver.stream_ended()

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Send bytes. Bytes that cannot be sent at once are queued.

        Raises:
            BrokenPipeError: The process no longer reads, or the link is gone.
        """

    @property
    def is_sent(self) -> bool:
        """True if all written bytes are known to have been sent."""
        return False

    async def drain(self) -> None:  # noqa: B027
        """Wait until all written bytes have been sent, or cannot be (back-pressure)."""

    @abstractmethod
    def close_write(self) -> None:
        """Send end of file to the process's standard input, after all written bytes."""

    @abstractmethod
    def pause(self) -> None:
        """Stop reading until `resume`."""

    @abstractmethod
    def resume(self) -> None:
        """Continue reading."""

    def rest(self, *, reports: bool) -> None:  # noqa: B027
        """Idle until the next write or `resume`: no caller waits for output.

        A stream with polling stops polling. With separate channels, standard error may stay unread for a moment.

        Args:
            reports: True if a state report is still to arrive, in several writes.
        """

    def unread(self) -> int | None:
        """Return the count of written bytes not read by the process, even after its end; None if unknown."""
        return None

    async def resize(self, terminal: Terminal) -> None:  # noqa: B027
        """Change the size of the process's terminal, if any."""

    @abstractmethod
    async def exit_code(self, timeout: float) -> int | None:
        """Return the exit code (128 + N for signal N), or None if unknown after `timeout` seconds."""

    @abstractmethod
    async def close(self) -> None:
        """Close the stream and free its local resources. A local child is killed and reaped."""


class Chunk(NamedTuple):
    """Received bytes. An empty chunk marks the end of the process."""

    channel: Channel
    data: bytes


class BlockingStream(Protocol):
    """A process in the target, as its standard streams. One thread reads; any thread may write or close."""

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Returns:
            The received bytes, an empty chunk once the process has ended, or None after the time-out.
        """

    def write(self, data: bytes) -> None:
        """Send all of `data` to the process.

        Raises:
            BrokenPipeError: The process no longer reads, or the link is gone.
        """

    def close_write(self) -> None:
        """Send end of file to the process's standard input."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the process's terminal, if any."""

    def exit_code(self, timeout: float) -> int | None:
        """Return the exit code (128 + N for signal N), or None if unknown after `timeout` seconds."""

    def close(self) -> None:
        """Close the stream and free its local resources. A local child is killed and reaped."""


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
        if self._is_closed or self._is_broken:
            raise BrokenPipeError("the stream is closed")
        self._send(lambda: self._stream.write(data))

    def close_write(self) -> None:
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
            except Exception as error:  # the process reads no more, or the target is gone; the reader handles the end
                log.debug("input could not be sent: %s", error)
                self._is_broken = True
            thread.soon(self._note_sent)

    def _note_sent(self) -> None:
        self._unsent -= 1
        if self._unsent == 0 or self._is_broken:
            self._sent.set()

    async def drain(self) -> None:
        if self._unsent and not self._is_broken:
            await self._sent.wait()

    def pause(self) -> None:
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    async def resize(self, terminal: Terminal) -> None:
        # Queued after written bytes.
        self._send(lambda: self._stream.resize(terminal))

    async def exit_code(self, timeout: float) -> int | None:
        return await in_worker(self._stream.exit_code, timeout)

    async def close(self) -> None:
        self._is_closed = True
        self._may_read.set()
        self._sent.set()
        self._sending.put(None)
        with contextlib.suppress(OSError):
            await in_worker(self._stream.close)
        self._end()


def as_stream(stream: Stream | BlockingStream) -> Stream:
    """Return the stream, wrapped in `Threaded` if blocking."""
    return stream if isinstance(stream, Stream) else Threaded(stream)
