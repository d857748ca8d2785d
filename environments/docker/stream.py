"""Streams to processes in a container: those that `exec` starts, and the shell that the container runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from environments.docker.client import ENGINE_ERRORS, DialledSocket
from environments.errors import EnvironmentStartError
from environments.loop import in_worker
from environments.output import Channel
from environments.shell.socket_stream import SocketStream
from environments.shell.stream import Chunk, Terminal

if TYPE_CHECKING:
    from docker import APIClient


RESIZE_LIMIT = 5.0
"""Seconds for a new terminal to exist: the engine answers before it has started the process."""
WAITING_LIMIT = 3.0
"""Seconds for it to run a text of builtins."""
WAKE_AGAIN = 0.05
"""Seconds behind which it is let go on once more, as it may have been stopped again."""
READ_SIZE = 65536
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


class FrameDecoder:
    """Takes apart what comes on an exec socket: frames of an 8-byte header (channel, length) and a payload."""

    _HEADER = struct.Struct(">BxxxL")

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._channel = Channel.STDOUT

    def feed(self, data: bytes) -> list[Chunk]:
        """Take the next bytes, cut anywhere, and return what they bring; neighbours of one channel are joined."""
        pieces: list[tuple[Channel, list[memoryview]]] = []
        view = memoryview(data)
        while view:
            if not self._left:
                missing = self._HEADER.size - len(self._header)
                self._header += view[:missing]
                view = view[missing:]
                if len(self._header) == self._HEADER.size:
                    kind, self._left = self._HEADER.unpack(self._header)
                    self._header = b""
                    self._channel = Channel.STDERR if kind == Channel.STDERR.value else Channel.STDOUT
                continue
            if not pieces or pieces[-1][0] is not self._channel:
                pieces.append((self._channel, []))
            payload, view = view[: self._left], view[self._left :]
            pieces[-1][1].append(payload)
            self._left -= len(payload)
        return [Chunk(channel, b"".join(parts)) for channel, parts in pieces]


class ExecStream(SocketStream):
    """A process in a container, as the socket that the engine joins its standard streams to.

    Args:
        api: The engine. The constructor waits for it, so that it belongs on a worker thread.
        exec_id: An exec that was created and not started.
        terminal: The size of its terminal, if it was created with one.

    Raises:
        EnvironmentStartError: It could not be started.
        UnsupportedError: The engine is reached in a way that has no plain socket.
    """

    def __init__(self, api: APIClient, exec_id: str, terminal: Terminal | None) -> None:
        self._api = api
        self._id = exec_id
        self._decoder = None if terminal else FrameDecoder()
        connected, early, self._free = take_over(api.exec_start(exec_id, tty=terminal is not None, socket=True))
        super().__init__(connected, early)
        if terminal:
            self._await_terminal(terminal)

    def _await_terminal(self, terminal: Terminal) -> None:
        deadline = time.monotonic() + RESIZE_LIMIT
        while True:
            try:
                return self._resize(terminal)
            except ENGINE_ERRORS as error:
                if not self._is_running():  # it has ended, and what it printed can be read
                    return None
                if time.monotonic() > deadline:
                    self._free()
                    raise EnvironmentStartError(f"the terminal could not be set up: {error}") from error
                time.sleep(_FIRST_PAUSE)

    def _is_running(self) -> bool:
        with contextlib.suppress(*ENGINE_ERRORS):
            return bool(self._api.exec_inspect(self._id)["Running"])
        return True

    def _take(self, data: bytes) -> None:
        for channel, part in self._decoder.feed(data) if self._decoder else [Chunk(Channel.STDOUT, data)]:
            self.receiver.data_received(channel, part)

    def close_write(self) -> None:
        """Let the process see end of file: close our half of the socket, or type control-D on a terminal."""
        if self._decoder is None:
            self.write(b"\x04")
        else:
            super().close_write()

    async def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal, if there is one and its process has not ended."""
        if self._decoder is None:
            with contextlib.suppress(*ENGINE_ERRORS):
                await in_worker(self._resize, terminal)

    def _resize(self, terminal: Terminal) -> None:
        self._api.exec_resize(self._id, height=terminal.rows, width=terminal.columns)

    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream`. None at once when the link is known to be gone."""
        if isinstance(self._socket, DialledSocket) and self._socket.joint.has_lost_link:  # it may have ended for that
            return None
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                state = await in_worker(self._api.exec_inspect, self._id)
            except ENGINE_ERRORS:  # with the container its execs are gone
                return None
            if not state["Running"]:
                code = state["ExitCode"]
                return code if isinstance(code, int) else None
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _release(self) -> None:
        self._free()


def take_over(connection: object) -> tuple[socket.socket, bytes, Callable[[], None]]:
    """Return the socket under docker-py's answer, what came on it already, and what frees it all.

    docker-py has read the answer's header through a buffer, and that may have taken in the process's first bytes.
    """
    response: Any = getattr(connection, "_response", None)
    raw: Any = getattr(connection, "_sock", None)
    owners: list[Any] = [owner for owner in (response, connection, raw) if owner is not None]

    def free() -> None:
        for owner in owners:
            owner.close()

    try:
        raw.setblocking(False)
        early: bytes = response.raw._fp.fp.peek()
    except BaseException:  # of a client whose requests were broken off meanwhile
        free()
        raise
    return raw, early, free


class WaitingShell:
    """A connection to its input and output. Podman ends the input, and with it the container, when that is closed.

    Args:
        api: The engine.
        container: The container.
    """

    def __init__(self, api: APIClient, container: str) -> None:
        self.container = container
        self._api = api
        self._decoder = FrameDecoder()
        taken = take_over(api.attach_socket(container, {"stdin": 1, "stdout": 1, "stream": 1}))
        self._socket, self._early, self.close = taken

    def run(self, text: str) -> str | None:
        """Run shell text of builtins, and return what it prints; None if it does not come to its end.

        A command may have stopped the shell. The first process of the container cannot be stopped there, and hands a
        signal on to it.

        Raises:
            EnvironmentStartError: The container has ended.
            docker.errors.APIError: The engine refused.
            OSError: The link to it is gone.
        """
        word, output = os.urandom(8).hex(), b""
        self._socket.sendall(f"{text}\necho {word}\n".encode())
        deadline = time.monotonic() + WAITING_LIMIT
        data, self._early = self._early, b""
        while time.monotonic() < deadline:
            output += b"".join(chunk.data for chunk in self._decoder.feed(data) if chunk.channel is Channel.STDOUT)
            found, mark, _ = output.partition(word.encode())
            if mark:
                return found.decode("utf-8", "replace")
            data = b""
            if not select.select([self._socket], [], [], WAKE_AGAIN)[0]:
                self._api.kill(self.container, "CONT")
            elif not (data := self._socket.recv(READ_SIZE)):
                raise EnvironmentStartError("backend 'docker': the container has ended")
        return None
