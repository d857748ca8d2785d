"""Connections of a target over one stream, in frames. What comes from the target is not trusted.

A frame is a letter, the number of a connection, a length and so many bytes. Each side may send `WINDOW` bytes of a
connection ahead of what the other has taken.

| frame | from the target                           | to the target                     |
|-------|-------------------------------------------|-----------------------------------|
| `R`   | the port it listens at, or why it cannot  |                                   |
| `O`   | a connection was made                     |                                   |
| `D`   | bytes                                     | bytes                             |
| `W`   | so many bytes were taken                  | so many bytes were taken          |
| `E`   | end of file                               | end of file                       |
| `C`   | the connection was closed                 | close it, behind what was sent    |
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from environments.log import logger
from environments.loop import current, spawn
from environments.output import Channel as Output

if TYPE_CHECKING:
    from environments.shell.stream import Stream

WINDOW = 128 * 1024
"""Bytes of a connection that may be under way in each direction."""
MOST = 256
"""Connections at once."""
LARGEST = 64 * 1024
"""Bytes in a frame."""
MOST_UNSENT = 2 * MOST * LARGEST
"""Bytes that may be sent and not be taken by the stream."""
ERRORS = 2000
"""Bytes kept of what the program prints on standard error."""
HEAD = struct.Struct(">cII")
UNAVAILABLE = b"HTTP/1.1 503 too many connections at once\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logger(__name__)


class BrokenChannelError(Exception):
    """The target has sent what the program never sends."""


class Connection:
    """One connection of the target.

    Args:
        channel: Carries it.
        number: Its number.
    """

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self.number = number
        self._reader = asyncio.StreamReader(limit=LARGEST)
        self._held = 0
        self._untold = 0
        self._credit = WINDOW
        self._room = asyncio.Event()
        self._at_end = self._is_gone = False

    # What the target sends.

    def received(self, data: bytes) -> None:
        """Take bytes of the target's."""
        self._held += len(data)
        if self._held > WINDOW or self._at_end:
            raise BrokenChannelError("a connection has sent more than it may")
        if not self._is_gone:
            self._reader.feed_data(data)

    def granted(self, size: int) -> None:
        """Note that the target has taken bytes."""
        if size > WINDOW - self._credit:
            raise BrokenChannelError("a connection has taken more than it was sent")
        self._credit += size
        self._room.set()

    def end_received(self) -> None:
        """Note the end of file."""
        self._at_end = True
        self._reader.feed_eof()

    def gone(self) -> None:
        """Note that it was closed there."""
        if not self._is_gone:
            self._is_gone = True
            self._reader.set_exception(ConnectionResetError("the connection was closed in the target"))
            self._room.set()

    # What is read and written here.

    async def read(self, most: int = LARGEST) -> bytes:
        """Return the next bytes, none at the end of file.

        Raises:
            ConnectionError: It was closed.
        """
        return self._took(await self._reader.read(most))

    async def read_until(self, end: bytes) -> bytes:
        """Return all up to some bytes, these included.

        Raises:
            asyncio.LimitOverrunError: That is more than `LARGEST`.
            asyncio.IncompleteReadError: They do not come.
            ConnectionError: It was closed.
        """
        return self._took(await self._reader.readuntil(end))

    def _took(self, data: bytes) -> bytes:
        self._held -= len(data)
        self._untold += len(data)
        if self._untold >= WINDOW // 4:
            self._channel.send(b"W", self.number, struct.pack(">I", self._untold))
            self._untold = 0
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, as far ahead as the target may be.

        Raises:
            ConnectionError: It was closed.
        """
        view = memoryview(data)
        while view:
            while not self._credit and not self._is_gone:
                self._room.clear()
                await self._room.wait()
            if self._is_gone:
                raise ConnectionResetError("the connection was closed in the target")
            part = view[: min(self._credit, LARGEST)]
            self._credit -= len(part)
            self._channel.send(b"D", self.number, bytes(part))
            view = view[len(part) :]
            await self._channel.drain()

    def write_eof(self) -> None:
        """Send end of file."""
        if not self._is_gone:
            self._channel.send(b"E", self.number)

    def close(self) -> None:
        """Have the target close it, behind what was sent."""
        if not self._is_gone:
            self._is_gone = True
            self._channel.send(b"C", self.number)


class Channel:
    """All connections of a target. It receives what the program in the target sends, see `Receiver`.

    Args:
        serve: Serves a connection until it ends.
    """

    def __init__(self, serve: Callable[[Connection], Coroutine[Any, Any, None]]) -> None:
        self._serve = serve
        self._stream: Stream | None = None
        self._buffer = bytearray()
        self._errors = b""
        self._connections: dict[int, Connection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._draining = asyncio.Lock()
        self._drain: asyncio.Task[None] | None = None
        self._unsent = 0
        self.ready: asyncio.Future[str] = current().loop.create_future()
        """The port that the program listens at, as it says it, or why it does not."""

    def attach(self, stream: Stream) -> None:
        """Take what a stream brings."""
        self._stream = stream
        stream.start(self)

    @property
    def is_up(self) -> bool:
        """True while the program runs."""
        return self._stream is not None and not self._stream.ended.done()

    @property
    def errors(self) -> str:
        """The end of what the program has printed on standard error."""
        return self._errors.decode("utf-8", "replace").strip()

    # On the way to the target.

    def send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        """Send a frame. One that cannot be sent any more is dropped, as the stream's end is met by what reads."""
        if self._stream is None:
            return
        try:
            self._stream.write(HEAD.pack(kind, number, len(data)) + data)
        except BrokenPipeError:
            log.debug("the network proxy's stream has ended")
            return
        self._unsent += HEAD.size + len(data)
        if self._unsent > MOST_UNSENT:
            log.warning("the network proxy in the target is ended: it does not read what it is sent")
            self.end()
        elif self._unsent > LARGEST and (self._drain is None or self._drain.done()):
            self._drain = spawn(self.drain())

    async def drain(self) -> None:
        """Wait until the stream has taken what was sent."""
        async with self._draining:
            if self._stream is not None:
                await self._stream.drain()
                self._unsent = 0

    # On the way from the target.

    def data_received(self, channel: Output, data: bytes) -> None:
        """Take bytes, see `Receiver`."""
        if channel is not Output.STDOUT:
            self._errors = (self._errors + data)[-ERRORS:]
            return
        if self._stream is None:
            return
        self._buffer += data
        try:
            self._take_frames()
        except BrokenChannelError as error:
            log.warning("the network proxy in the target is ended: %s", error)
            self.end()

    def _take_frames(self) -> None:
        at, buffer = 0, self._buffer
        while len(buffer) - at >= HEAD.size:
            kind, number, size = HEAD.unpack_from(buffer, at)
            if size > LARGEST:
                raise BrokenChannelError("a frame is too large")
            if len(buffer) - at < HEAD.size + size:
                break
            data = bytes(buffer[at + HEAD.size : at + HEAD.size + size])
            at += HEAD.size + size
            self._take(kind, number, data)
        del buffer[:at]

    def _take(self, kind: bytes, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        if kind == b"R" and not self.ready.done():
            self.ready.set_result(data.decode("utf-8", "replace"))
        elif kind == b"O" and self.ready.done() and connection is None:
            self._open(number)
        elif kind not in (b"D", b"W", b"E", b"C"):
            raise BrokenChannelError("a frame is of no kind that there is")
        elif connection is None:
            return  # it was closed here, which the target did not know yet
        elif kind == b"D":
            connection.received(data)
        elif kind == b"W" and len(data) == 4:
            connection.granted(struct.unpack(">I", data)[0])
        elif kind == b"E":
            connection.end_received()
        elif kind == b"C":
            connection.gone()
            self._tasks[number].cancel()

    def _open(self, number: int) -> None:
        if len(self._connections) >= 2 * MOST:  # the program has at most MOST; some may be about to end here
            self.send(b"D", number, UNAVAILABLE)
            self.send(b"C", number)
            return
        connection = self._connections[number] = Connection(self, number)
        task = self._tasks[number] = spawn(self._serve(connection))
        task.add_done_callback(lambda _: self._served(connection))

    def _served(self, connection: Connection) -> None:
        connection.close()
        del self._connections[connection.number], self._tasks[connection.number]

    def cancel(self, connection: Connection) -> None:
        """End a connection."""
        if task := self._tasks.get(connection.number):
            task.cancel()

    def stream_ended(self) -> None:
        """End all connections, see `Receiver`."""
        self._end_connections()
        if not self.ready.done():
            self.ready.set_result("")

    def _end_connections(self) -> None:
        for number, task in list(self._tasks.items()):
            self._connections[number].gone()
            task.cancel()

    def end(self) -> None:
        """End the program and all connections. It ends at the end of its input, and with its stream."""
        stream, self._stream = self._stream, None
        self._buffer.clear()
        self.stream_ended()
        if stream is not None:
            stream.close_write()
            spawn(stream.close())
