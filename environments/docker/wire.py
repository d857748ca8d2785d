"""What an exec's stream goes over: the socket that docker-py had, or a stream to the host that the engine is on."""

from __future__ import annotations

import contextlib
import io
import select
import socket
import threading
import time
from typing import TYPE_CHECKING, Protocol

from environments.sink import Channel

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from environments.shell.stream import BlockingStream

READ_SIZE = 256 * 1024
_KEEPALIVE_IDLE = 30
"""Seconds of silence after which a TCP link to the engine is checked, so that a dead one is noticed."""
_MOST_SAID = 4096
"""Bytes of complaints that are kept."""
_EXIT_LIMIT = 5.0
"""Seconds for the exit code of what leads to the engine, once it has ended."""


class Wire(Protocol):
    """Bytes to and from the engine. One thread reads; any thread may write or shut it down."""

    def receive(self, timeout: float | None) -> bytes | None:
        """Wait for bytes, for ever if `timeout` is None. Return none at the end, and None when the time was up."""

    def sendall(self, data: bytes) -> None:
        """Send all of `data`. Raises OSError where the engine does not read any more."""

    def shutdown(self, how: int) -> None:
        """Let the engine see the end of our half; with SHUT_RDWR wake also who waits here. Raises OSError."""

    def close(self) -> None:
        """Free it."""

    @property
    def is_broken(self) -> bool:
        """Whether it has come to its end because the link under it did."""


class SocketWire:
    """A socket that docker-py has connected to the engine."""

    def __init__(self, raw: socket.socket) -> None:
        self._socket = raw
        self._poll = select.poll()
        self._poll.register(raw, select.POLLIN)
        if raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE)

    def receive(self, timeout: float | None) -> bytes | None:
        """Wait for bytes, see `Wire`."""
        if not self._poll.poll(None if timeout is None else timeout * 1000):
            return None
        return self._socket.recv(READ_SIZE)

    def sendall(self, data: bytes) -> None:
        """Send bytes, see `Wire`."""
        self._socket.sendall(data)

    def shutdown(self, how: int) -> None:
        """End our half, see `Wire`."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket, see `Wire`."""
        self._socket.close()

    @property
    def is_broken(self) -> bool:
        """Whether the link broke, see `Wire`: of a socket nobody knows."""
        return False


class DialError(ConnectionError):
    """The engine on another machine cannot be reached. It says why, and what helps."""


def dial_error(error: BaseException | None) -> DialError | None:
    """Return the error of that kind which another one was raised for, if there is one; docker-py wraps it."""
    while error:
        if isinstance(error, DialError):
            return error
        error = error.__cause__ or error.__context__
    return None


class Complaints(Protocol):
    """Says what is wrong where no engine answers."""

    def __call__(self, exit_code: int | None, said: str) -> str:
        """Return why, and what helps.

        Args:
            exit_code: How the program ended that leads to the engine; None if the link to it is gone.
            said: What it has printed to its standard error.
        """


class StreamSocket:
    """A stream to a program that joins it to the engine, with as much of a socket as docker-py uses.

    Args:
        stream: The stream.
        complaints: Say what is wrong where it ends without a word of the engine.
    """

    def __init__(self, stream: BlockingStream, complaints: Complaints) -> None:
        self._stream = stream
        self._complaints = complaints
        self._timeout: float | None = None
        self._rest = memoryview(b"")
        self._said = b""
        self._answered = self._ended = False
        self._closing = threading.Lock()

    @property
    def is_quiet(self) -> bool:
        """Whether it is there, and nothing has come that nobody asked for."""
        return not self._rest and not self._ended and self.receive(0) is None

    def receive(self, timeout: float | None) -> bytes | None:
        """Wait for bytes, see `Wire`.

        Raises:
            DialError: It ended, and no engine has ever answered.
        """
        if self._rest:  # what docker-py has left of an answer
            rest, self._rest = bytes(self._rest), memoryview(b"")
            return rest
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ended:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            chunk = self._stream.read(left)
            if chunk is None:
                return None
            if chunk.data and chunk.channel is Channel.STDERR:
                self._said = (self._said + chunk.data)[:_MOST_SAID]
                continue
            self._ended = not chunk.data
            self._answered = self._answered or bool(chunk.data)
            if self._answered:
                return chunk.data
        if self._answered:
            return b""
        code = self._stream.exit_code(_EXIT_LIMIT)
        raise DialError(self._complaints(code, self._said.decode("utf-8", "replace").strip()))

    @property
    def is_broken(self) -> bool:
        """Whether the link broke, see `Wire`: then nothing is known of the end of the program there."""
        return self._ended and self._stream.exit_code(_EXIT_LIMIT) is None

    def receive_into(self, buffer: WriteableBuffer) -> int | None:
        """Read some bytes for docker-py, within the time that it has set, and return how many."""
        if not self._rest:
            data = self.receive(self._timeout)
            if data is None and self._timeout:
                raise TimeoutError("the engine does not answer")
            if data is None:
                return None
            self._rest = memoryview(data)
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def sendall(self, data: bytes) -> None:
        """Send bytes, see `Wire`."""
        self._stream.write(bytes(data))

    def shutdown(self, how: int) -> None:
        """End our half, see `Wire`."""
        if how == socket.SHUT_WR:
            self._stream.close_write()
        else:
            self.close()

    def settimeout(self, timeout: float | None) -> None:
        """Set how many seconds docker-py waits for bytes; None is for ever."""
        self._timeout = timeout

    def setblocking(self, blocking: bool) -> None:
        """Have docker-py wait for bytes, or not at all."""
        self._timeout = None if blocking else 0.0

    def makefile(self, mode: str, *_: object, **__: object) -> io.BufferedReader:
        """Return a file that docker-py reads an answer from. Closing it leaves the stream open."""
        assert mode == "rb"
        return io.BufferedReader(_Reader(self))

    def close(self) -> None:
        """Close the stream, see `Wire`."""
        with self._closing, contextlib.suppress(OSError):
            self._stream.close()


class _Reader(io.RawIOBase):
    """The raw file under an answer."""

    def __init__(self, opened: StreamSocket) -> None:
        super().__init__()
        self._sock = opened

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        return self._sock.receive_into(buffer)
