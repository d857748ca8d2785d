"""Streams to processes in a container: to a process started by `exec`, and to the container's own shell."""

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
"""Seconds for a new terminal to exist: the engine answers before the process has started."""
WAITING_LIMIT = 3.0
"""Seconds for the waiting shell to run a text of builtins."""
CONT_INTERVAL = 0.05
"""Seconds between two SIGCONT to the waiting shell, which a command may stop repeatedly."""
READ_SIZE = 65536
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


class FrameDecoder:
    """Decodes the bytes of an exec socket: frames of an 8-byte header (channel, length) and a payload."""

    _HEADER = struct.Struct(">BxxxL")

    def __init__(self) -> None:
        self._header = b""
        self._left = 0
        self._channel = Channel.STDOUT

    def feed(self, data: bytes) -> list[Chunk]:
        """Feed the next bytes, cut anywhere. Returns their chunks; adjacent payloads of one channel are joined."""
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
    """A process in a container: the socket that the engine joins to its standard streams.

    Args:
        api: The engine. The constructor blocks on the engine: call it on a worker thread.
        exec_id: A created exec, not started.
        terminal: The size of its terminal, if it was created with a terminal.

    Raises:
        EnvironmentStartError: The process could not be started.
        UnsupportedError: The way to the engine has no plain socket.
    """

    def __init__(self, api: APIClient, exec_id: str, terminal: Terminal | None) -> None:
        self._api = api
        self._id = exec_id
        self._decoder = None if terminal else FrameDecoder()
        connected, early, self._free = detach_socket(api.exec_start(exec_id, tty=terminal is not None, socket=True))
        super().__init__(connected, early)
        if terminal:
            self._await_terminal(terminal)

    def _await_terminal(self, terminal: Terminal) -> None:
        deadline = time.monotonic() + RESIZE_LIMIT
        while True:
            try:
                return self._resize(terminal)
            except ENGINE_ERRORS as error:
                if not self._is_running():  # the process has ended; its output can be read
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
        # On a terminal, control-D is the end of file. Else our half of the socket is closed.
        if self._decoder is None:
            self.write(b"\x04")
        else:
            super().close_write()

    async def resize(self, terminal: Terminal) -> None:
        # An ended process has no terminal.
        if self._decoder is None:
            with contextlib.suppress(*ENGINE_ERRORS):
                await in_worker(self._resize, terminal)

    def _resize(self, terminal: Terminal) -> None:
        self._api.exec_resize(self._id, height=terminal.rows, width=terminal.columns)

    async def exit_code(self, timeout: float) -> int | None:
        # A lost link gives None at once.
        if isinstance(self._socket, DialledSocket) and self._socket.relay.lost_link:  # perhaps the cause of its end
            return None
        deadline = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            try:
                state = await in_worker(self._api.exec_inspect, self._id)
            except ENGINE_ERRORS:  # a removed container has no execs
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


def detach_socket(connection: object) -> tuple[socket.socket, bytes, Callable[[], None]]:
    """Return the socket below docker-py's answer, the bytes received already, and a function that closes all.

    docker-py reads the answer's header through a buffer, which may contain the first bytes of the process.
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
    except BaseException:  # such as an aborted request
        free()
        raise
    return raw, early, free


class WaitingShell:
    """A connection to a container's own shell. Closing it ends the shell's input with Podman, and so the container.

    Args:
        api: The engine.
        container: The container.
    """

    def __init__(self, api: APIClient, container: str) -> None:
        self.container = container
        self._api = api
        self._decoder = FrameDecoder()
        taken = detach_socket(api.attach_socket(container, {"stdin": 1, "stdout": 1, "stream": 1}))
        self._socket, self._early, self.close = taken

    def run(self, text: str) -> str | None:
        """Run shell text of builtins, and return its output; None if the shell does not finish in time.

        A command may have stopped (SIGSTOP) the shell. The container's first process cannot be stopped from inside, and
        forwards SIGCONT.

        Raises:
            EnvironmentStartError: The container has ended.
            docker.errors.APIError: The engine refused.
            OSError: The link to the engine is lost.
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
            if not select.select([self._socket], [], [], CONT_INTERVAL)[0]:
                self._api.kill(self.container, "CONT")
            elif not (data := self._socket.recv(READ_SIZE)):
                raise EnvironmentStartError("backend 'docker': the container has ended")
        return None
