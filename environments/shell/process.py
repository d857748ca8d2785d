"""A command that runs in the background, with a stream of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from environments.base import Process
from environments.errors import EnvironmentLostError
from environments.shell.output import Nowhere, UnreadOutput
from environments.shell.running import RunningCommand
from environments.shell.shell import Shell
from environments.shell.stream import Terminal
from environments.sink import OutputSink

EXIT_CODE_TIMEOUT = 5.0
"""Seconds for the exit code of a shell that ended without a word."""


class ShellProcess(Process):
    """A command that a shell of its own runs, or a fork of one that is lent."""

    def __init__(
        self, shell: Shell, running: RunningCommand, sink: OutputSink, release: Callable[[Shell], object]
    ) -> None:
        self.pid = shell.pid
        self._shell = shell
        self._running = running
        self._sink = sink
        self._release = release
        self._done = threading.Event()
        self._exit_code: int | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._pump, name=f"hermes-process-{shell.pid}", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        code: int | None = None
        try:
            try:
                code = self._shell.receive(self._sink).exit_code
            except Exception as error:  # of the sink: nobody can take the output any more
                self._error = error
                self._running.interrupt()
                code = self._shell.receive(Nowhere()).exit_code
            if code is None:
                code = self._shell.stream.exit_code(EXIT_CODE_TIMEOUT)
        finally:
            self._exit_code = code
            self._running.finished()
            if self._running.reason or code:
                self._shell.close()  # what was written to the command may lie unread in front of the shell
            self._release(self._shell)
            self._done.set()

    @property
    def running(self) -> bool:
        """Whether the command has not ended."""
        return not self._done.is_set()

    def read(self) -> str:
        """Return what has come, see `Process`."""
        if not isinstance(self._sink, UnreadOutput):
            return ""
        return self._sink.take(final=self._done.is_set())

    def write(self, data: str | bytes) -> None:
        """Send to the command, see `Process`."""
        if self._done.is_set():
            raise BrokenPipeError("the process has ended")
        self._shell.stream.write(data.encode() if isinstance(data, str) else data)

    def close_stdin(self) -> None:
        """Let the command see end of file, see `Process`."""
        with contextlib.suppress(BrokenPipeError):
            self._shell.stream.close_write()

    def poll(self) -> int | None:
        """Return the exit code, see `Process`."""
        if not self._done.is_set():
            return None
        if self._error:
            raise self._error
        if self._exit_code is None:
            raise EnvironmentLostError("the target went away while a background process ran")
        return self._exit_code

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end, see `Process`."""
        self._done.wait(timeout)
        return self.poll()

    def kill(self) -> None:
        """End the command, see `Process`."""
        self._running.interrupt()
        self._done.wait()
        self._running.sweep()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal, see `Process`."""
        self._shell.stream.resize(Terminal(rows, columns))
