"""A process on a terminal of a Daytona sandbox, over the service's websocket."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import threading
import time
from collections.abc import Callable, Sequence

from environments.daytona.service import reason, sdk
from environments.errors import EnvironmentStartError
from environments.shell.stream import Chunk, Terminal
from environments.sink import Channel

PROMPT_TIMEOUT = 5.0
"""Seconds to wait for the login shell's first words: what is typed before may be thrown away."""
BEGIN_TIMEOUT = 30.0
JOIN_TIMEOUT = 5.0


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
        script = put_script(f"printf %s {begin}\nexec {shlex.join(argv)}\n".encode())
        size = sdk.PtySize(rows=terminal.rows, cols=terminal.columns)
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
