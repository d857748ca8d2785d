"""Writing to a background process, which may never read what it is sent."""

from __future__ import annotations

import threading

from environments.errors import TerminalError
from environments.process import Process

WRITE_SECONDS = 5.0
"""How long a call waits until the process has taken what was written."""
_CLOSE_TIMEOUT = 5.0


class ProcessInput:
    """The standard input of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None

    def write(self, data: str) -> None:
        """Send text.

        What the process does not take is waited for by a thread, which ends with the process at the latest; until
        then nothing else is taken.

        Raises:
            BrokenPipeError: The process has ended, has closed its input, or does not read.
            TerminalError: The environment belongs to another process.
        """
        failures: list[Exception] = []

        def write() -> None:
            try:
                self._process.write(data)
            except (OSError, TerminalError) as error:
                failures.append(error)

        with self._lock:
            if self._writer and self._writer.is_alive():
                raise BrokenPipeError("it has not read yet what it was sent before, so that this was not sent")
            self._writer = threading.Thread(target=write, name="hermes-write", daemon=True)
            self._writer.start()
            self._writer.join(WRITE_SECONDS)
            if self._writer.is_alive():
                raise BrokenPipeError("it has not read all of this yet; the rest is sent when it does")
        if failures:
            raise failures[0]

    def join(self) -> None:
        """Wait until nothing is written any more, after the end of the process."""
        with self._lock:
            writer = self._writer
        if writer:
            writer.join(_CLOSE_TIMEOUT)
