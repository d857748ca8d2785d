"""The transport for backends with a duplex stream: a socket in the target, joined to us over one stream."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from environments.base import BaseEnvironment, Process
from environments.errors import TerminalError
from environments.sink import Channel
from rpc.dispatcher import Dispatcher
from rpc.messages import MAX_MESSAGE_BYTES, Response, too_large
from rpc.target_source import target_source

CONNECT_SECONDS = 20.0
"""How long a script's first call waits for the relay, which starts at the same time as the script."""
CLOSE_GRACE_SECONDS = 2.0

_Take = Callable[[bytes], None]
_Answer = Callable[[bytes, bytes], None]


class RelayTransport:
    """Takes requests from scripts in any environment that can run a process with a duplex stream.

    A connection's requests are answered in a thread of its own.
    """

    def __init__(self, dispatcher: Dispatcher, env: BaseEnvironment, directory: str, python: str) -> None:
        """Use a socket in a directory of the target.

        Args:
            dispatcher: What answers the requests.
            env: Where the script runs.
            directory: An absolute path there, which only the script's user can enter; its maker removes it.
            python: A Python there, 3.8 or later.
        """
        self._dispatcher = dispatcher
        self._env = env
        self._directory = directory
        self._python = python
        self._process: Process | None = None
        self._write_lock = threading.Lock()
        self._connections: dict[bytes, _Connection] = {}

    @property
    def client_source(self) -> str:
        """The script's side, as in `Transport`."""
        return target_source(
            "unix_socket_client.py", _SOCKET_PATH=f"{self._directory}/socket", _CONNECT_SECONDS=CONNECT_SECONDS
        )

    def start(self) -> None:
        """Start the relay, without waiting until it listens.

        Raises:
            TerminalError: It could not be started.
        """
        program = target_source(
            "relay_program.py",
            SOCKET_PATH=f"{self._directory}/socket",
            MAX_MESSAGE_BYTES=MAX_MESSAGE_BYTES,
            TOO_LARGE=Response("", error=too_large()).encode().decode().rstrip("\n"),
        )
        # Without the site module, which the relay has no use for, Python starts in half the time.
        command = shlex.join([self._python, "-IS", "-c", f"{program}main()\n"])
        self._process = self._env.start(command, stdin="consumed", sink=_Lines(self._take))

    def close(self) -> None:
        """End as `Transport.close` says."""
        with self._write_lock:
            process, self._process = self._process, None
            if process is None:
                return
            with contextlib.suppress(BrokenPipeError):
                process.write(b"\n")
        with contextlib.suppress(TerminalError):
            if process.wait(CLOSE_GRACE_SECONDS) is None:
                process.kill()
        deadline = time.monotonic() + CLOSE_GRACE_SECONDS
        for connection in list(self._connections.values()):
            connection.close(max(0.0, deadline - time.monotonic()))

    def _take(self, line: bytes) -> None:
        """Hand a line of the relay's to the thread of its connection."""
        number, _, request = line.partition(b" ")
        number = number.strip()
        connection = self._connections.get(number)
        if not request:
            if connection:
                connection.requests.put(None)  # it is waited for when the transport is closed
            return
        if connection is None:
            connection = self._connections[number] = _Connection(number, self._answer)
        connection.requests.put(request)

    def _answer(self, number: bytes, request: bytes) -> None:
        answer = self._dispatcher.dispatch(request)
        # Nothing may be written behind the line that ends the relay: a shell would read it.
        with self._write_lock, contextlib.suppress(BrokenPipeError):
            if self._process is not None:
                self._process.write(number + b" " + answer)


class _Connection:
    """One connection of a script, and the thread that answers it."""

    def __init__(self, number: bytes, answer: _Answer) -> None:
        self.requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._number = number
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, name="hermes-rpc-call", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while (request := self.requests.get()) is not None:
            self._answer(self._number, request)

    def close(self, timeout: float) -> None:
        """Have the thread end after the requests it has, and wait for it that many seconds."""
        self.requests.put(None)
        self._thread.join(timeout)


class _Lines:
    """Cuts what the relay says into lines."""

    separate = True

    def __init__(self, take: _Take) -> None:
        self._take = take
        self._begun = bytearray()

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes. What is said on standard error is of no use to anybody."""
        if channel is Channel.STDERR:
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._take(bytes(self._begun) + line + b"\n" if self._begun else line + b"\n")
            self._begun.clear()
        self._begun += rest

    def freeze(self) -> None:
        """What comes at the end is of no use either."""
