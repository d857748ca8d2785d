"""A process on a terminal of a Daytona sandbox, over the service's websocket."""

from __future__ import annotations

import contextlib
import importlib
import os
import queue
import shlex
import threading
import time
from collections.abc import Callable, Sequence

from environments.daytona.service import reason, sdk
from environments.errors import EnvironmentStartError, TerminalError
from environments.shell.stream import Chunk, Terminal
from environments.sink import Channel

PROMPT_TIMEOUT = 5.0
"""Seconds to wait for the login shell's first words: what is typed before may be thrown away."""
BEGIN_TIMEOUT = 30.0
JOIN_TIMEOUT = 5.0
_GREETING_TIMEOUT = 30.0
"""Seconds for the service to say that a terminal is there."""
_patient: set[type] = set()


def _let_the_client_wait() -> None:
    """Mend a fault of the client library, once: it gives up on a terminal that does not greet within 0.1 s.

    It waits for the greeting in such steps, and takes a TimeoutError for the end of one; but its websocket library
    raises `queue.Empty` then. Seen in daytona 0.226.1 with httpx-ws 0.9.0.
    """
    handle = importlib.import_module(f"{sdk.__name__}.handle.pty_handle").PtyHandle
    if handle in _patient:
        return
    wait_for_connection = handle.wait_for_connection

    def wait(self: object, timeout: float = _GREETING_TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while True:
            try:
                wait_for_connection(self, max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                raise sdk.DaytonaTimeoutError("PTY connection timeout") from None
            return

    handle.wait_for_connection = wait
    _patient.add(handle)


class DaytonaTerminal:
    """The service starts the user's own login shell on a terminal. It is told to become our process. See `Stream`.

    Args:
        sandbox: Where it runs.
        argv: The program and its arguments.
        terminal: Its size.
        put_script: Writes a script into the target and returns its path.
    """

    def __init__(
        self, sandbox: sdk.Sandbox, argv: Sequence[str], terminal: Terminal, put_script: Callable[[bytes], str]
    ) -> None:
        begin = os.urandom(8).hex()
        # What is typed is echoed, so that the word that begins the output must not stand in it.
        try:
            script = put_script(f"printf %s {begin}\nexec {shlex.join(argv)}\n".encode())
        except TerminalError as error:
            raise EnvironmentStartError(f"the terminal could not be set up: {error}") from error
        size = sdk.PtySize(rows=terminal.rows, cols=terminal.columns)
        _let_the_client_wait()
        self._handle = sandbox.process.create_pty_session(f"hermes-{begin}", pty_size=size)
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._rest = b""
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._receive, name="hermes-daytona-terminal", daemon=True)
        self._thread.start()
        try:
            self._take_over(begin.encode(), f" exec /bin/sh {shlex.quote(script)}\n".encode())
        except BaseException:
            self.close()
            raise

    def _receive(self) -> None:
        try:
            for data in self._handle:
                if data:
                    self._arrived.put(data)
        finally:
            self._arrived.put(b"")

    def _take_over(self, begin: bytes, line: bytes) -> None:
        with contextlib.suppress(queue.Empty):
            self._arrived.get(timeout=PROMPT_TIMEOUT)
        self.write(line)
        seen, deadline = b"", time.monotonic() + BEGIN_TIMEOUT
        while begin not in seen:
            chunk = self.read(max(0.0, deadline - time.monotonic()))
            if chunk is None or not chunk.data:
                said = seen.decode("utf-8", "replace")[-500:]
                raise EnvironmentStartError(f"backend 'daytona': the terminal could not be set up: {said}")
            seen += chunk.data
        self._rest = seen.partition(begin)[2]

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes. See `Stream`."""
        if self._rest:
            data, self._rest = self._rest, b""
            return Chunk(Channel.STDOUT, data)
        if self._ended:
            return Chunk(Channel.STDOUT, b"")
        try:
            data = self._arrived.get(block=timeout != 0, timeout=timeout or None)
        except queue.Empty:
            return None
        self._ended = not data
        return Chunk(Channel.STDOUT, data)

    def write(self, data: bytes) -> None:
        """Type bytes. See `Stream`."""
        try:
            self._handle.send_input(data)
        except sdk.DaytonaError as error:
            raise BrokenPipeError(reason(error)) from None

    def close_write(self) -> None:
        """Type control-D. See `Stream`."""
        self.write(b"\x04")

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal. See `Stream`."""
        with contextlib.suppress(sdk.DaytonaError):
            self._handle.resize(sdk.PtySize(rows=terminal.rows, cols=terminal.columns))

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended. See `Stream`."""
        self._thread.join(timeout)
        return self._handle.exit_code

    def close(self) -> None:
        """End the terminal. See `Stream`."""
        if self._closed:
            return
        self._closed = True
        if self._thread.is_alive():
            with contextlib.suppress(sdk.DaytonaError):
                self._handle.kill()
            self._thread.join(JOIN_TIMEOUT)
        self._handle.disconnect()
