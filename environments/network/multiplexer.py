"""Multiplexer: connections of a target in frames over one stream. Input from the target is not trusted.

A frame is a letter, the number of a connection, a length, and the bytes. Each side may send `WINDOW` bytes of a
connection before the other side has consumed them.

| frame | from the target                   | to the target                     |
|-------|-----------------------------------|-----------------------------------|
| `R`   | the listening port, or an error   |                                   |
| `O`   | open a connection                 |                                   |
| `D`   | data                              | data                              |
| `W`   | number of bytes consumed          | number of bytes consumed          |
| `E`   | end of file                       | end of file                       |
| `C`   | the connection was closed         | close after all data              |
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
"""Bytes of a connection that may be in flight in each direction."""
MAX_CONNECTIONS = 256
"""Maximum of connections at the same time."""
MAX_FRAME = 64 * 1024
"""Maximum bytes in a frame."""
MAX_UNSENT = 2 * MAX_CONNECTIONS * MAX_FRAME
"""Maximum bytes that the stream has not accepted yet."""
ERRORS = 2000
"""Bytes of the program's standard error to keep."""
HEAD = struct.Struct(">cII")
UNAVAILABLE = b"HTTP/1.1 503 too many connections at once\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

log = logger(__name__)


class BrokenChannelError(Exception):
    """The target has sent a frame that the proxy program never sends."""


class TargetConnection:
    """One connection of a program in the target.

    Args:
        multiplexer: Carries the connection.
        number: The connection's number.
    """

    def __init__(self, multiplexer: Multiplexer, number: int) -> None:
        self._multiplexer = multiplexer
        self.number = number
        self._reader = asyncio.StreamReader(limit=MAX_FRAME)
        self._unread = 0
        self._unreported = 0
        self._credit = WINDOW
        self._room = asyncio.Event()
        self._has_ended = self._is_closed = False

    # Frames from the target.

    def data_received(self, data: bytes) -> None:
        """Receive data."""
        self._unread += len(data)
        if self._unread > WINDOW or self._has_ended:
            raise BrokenChannelError("a connection has sent more than it may")
        if not self._is_closed:
            self._reader.feed_data(data)

    def window_received(self, size: int) -> None:
        """Receive a window update: the target has consumed bytes."""
        if size > WINDOW - self._credit:
            raise BrokenChannelError("a connection has taken more than it was sent")
        self._credit += size
        self._room.set()

    def end_received(self) -> None:
        """Receive the end of file."""
        self._has_ended = True
        self._reader.feed_eof()

    def reset(self) -> None:
        """Mark the connection as closed in the target."""
        if not self._is_closed:
            self._is_closed = True
            self._reader.set_exception(ConnectionResetError("the connection was closed in the target"))
            self._room.set()

    # The interface for the proxy.

    async def read(self, size: int = MAX_FRAME) -> bytes:
        """Return the next bytes; b"" at the end of file.

        Raises:
            ConnectionError: The connection was closed.
        """
        return self._consumed(await self._reader.read(size))

    async def read_until(self, end: bytes) -> bytes:
        """Return all bytes up to and including a separator.

        Raises:
            asyncio.LimitOverrunError: There are more than `MAX_FRAME` bytes before the separator.
            asyncio.IncompleteReadError: The separator does not follow.
            ConnectionError: The connection was closed.
        """
        return self._consumed(await self._reader.readuntil(end))

    def _consumed(self, data: bytes) -> bytes:
        self._unread -= len(data)
        self._unreported += len(data)
        if self._unreported >= WINDOW // 4:
            self._multiplexer.send(b"W", self.number, struct.pack(">I", self._unreported))
            self._unreported = 0
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, as far as the window allows: back-pressure.

        Raises:
            ConnectionError: The connection was closed.
        """
        view = memoryview(data)
        while view:
            while not self._credit and not self._is_closed:
                self._room.clear()
                await self._room.wait()
            if self._is_closed:
                raise ConnectionResetError("the connection was closed in the target")
            part = view[: min(self._credit, MAX_FRAME)]
            self._credit -= len(part)
            self._multiplexer.send(b"D", self.number, bytes(part))
            view = view[len(part) :]
            await self._multiplexer.drain()

    def write_eof(self) -> None:
        """Send the end of file."""
        if not self._is_closed:
            self._multiplexer.send(b"E", self.number)

    def close(self) -> None:
        """Close the connection in the target, after all data."""
        if not self._is_closed:
            self._is_closed = True
            self._multiplexer.send(b"C", self.number)


class Multiplexer:
    """All connections of a target. Receives the stream of the proxy program, see `Receiver`.

    Args:
        serve: Serves one connection until its end.
    """

    def __init__(self, serve: Callable[[TargetConnection], Coroutine[Any, Any, None]]) -> None:
        self._serve = serve
        self._stream: Stream | None = None
        self._buffer = bytearray()
        self._errors = b""
        self._connections: dict[int, TargetConnection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._draining = asyncio.Lock()
        self._drain: asyncio.Task[None] | None = None
        self._unsent = 0
        self.ready: asyncio.Future[str] = current().loop.create_future()
        """The program's report: its listening port, or an error; empty if the stream ended."""

    def attach(self, stream: Stream) -> None:
        """Start receiving from a stream."""
        self._stream = stream
        stream.start(self)

    @property
    def is_up(self) -> bool:
        """True while the program is running."""
        return self._stream is not None and not self._stream.ended.done()

    @property
    def errors(self) -> str:
        """The end of the program's standard error."""
        return self._errors.decode("utf-8", "replace").strip()

    # To the target.

    def send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        """Send a frame. After the end of the stream, frames are dropped: the readers notice the end."""
        if self._stream is None:
            return
        try:
            self._stream.write(HEAD.pack(kind, number, len(data)) + data)
        except BrokenPipeError:
            log.debug("the network proxy's stream has ended")
            return
        self._unsent += HEAD.size + len(data)
        if self._unsent > MAX_UNSENT:
            log.warning("the network proxy in the target is ended, as it does not read")
            self.end()
        elif self._unsent > MAX_FRAME and (self._drain is None or self._drain.done()):
            self._drain = spawn(self.drain())

    async def drain(self) -> None:
        """Wait until the stream has accepted all frames."""
        async with self._draining:
            if self._stream is not None:
                await self._stream.drain()
                self._unsent = 0

    # From the target.

    def data_received(self, channel: Output, data: bytes) -> None:
        """Receive output of the program, see `Receiver`."""
        if channel is not Output.STDOUT:
            self._errors = (self._errors + data)[-ERRORS:]
            return
        if self._stream is None:
            return
        self._buffer += data
        try:
            self._parse_frames()
        except BrokenChannelError as error:
            log.warning("the network proxy in the target is ended: %s", error)
            self.end()

    def _parse_frames(self) -> None:
        at, buffer = 0, self._buffer
        while len(buffer) - at >= HEAD.size:
            kind, number, size = HEAD.unpack_from(buffer, at)
            if size > MAX_FRAME:
                raise BrokenChannelError("a frame is too large")
            if len(buffer) - at < HEAD.size + size:
                break
            data = bytes(buffer[at + HEAD.size : at + HEAD.size + size])
            at += HEAD.size + size
            self._handle_frame(kind, number, data)
        del buffer[:at]

    def _handle_frame(self, kind: bytes, number: int, data: bytes) -> None:
        connection = self._connections.get(number)
        if kind == b"R" and not self.ready.done():
            self.ready.set_result(data.decode("utf-8", "replace"))
        elif kind == b"O" and self.ready.done() and connection is None:
            self._open(number)
        elif kind not in (b"D", b"W", b"E", b"C"):
            raise BrokenChannelError("a frame is of an unknown kind")
        elif connection is None:
            return  # closed here, before the target has received the `C`
        elif kind == b"D":
            connection.data_received(data)
        elif kind == b"W" and len(data) == 4:
            connection.window_received(struct.unpack(">I", data)[0])
        elif kind == b"E":
            connection.end_received()
        elif kind == b"C":
            connection.reset()
            self._tasks[number].cancel()

    def _open(self, number: int) -> None:
        if len(self._connections) >= 2 * MAX_CONNECTIONS:  # the program has half as many; others may be ending here
            self.send(b"D", number, UNAVAILABLE)
            self.send(b"C", number)
            return
        connection = self._connections[number] = TargetConnection(self, number)
        task = self._tasks[number] = spawn(self._serve(connection))
        task.add_done_callback(lambda _: self._remove(connection))

    def _remove(self, connection: TargetConnection) -> None:
        connection.close()
        del self._connections[connection.number], self._tasks[connection.number]

    def cancel(self, connection: TargetConnection) -> None:
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
            self._connections[number].reset()
            task.cancel()

    def end(self) -> None:
        """End the program and all connections. The program ends at its end of input, and with the stream."""
        stream, self._stream = self._stream, None
        self._buffer.clear()
        self.stream_ended()
        if stream is not None:
            stream.close_write()
            spawn(stream.close())
