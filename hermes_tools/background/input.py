"""Writing to a background process, which may never read what it is sent."""

from __future__ import annotations

import contextlib
import threading

from environments.base import Process
from environments.errors import TerminalError

WRITE_SECONDS = 5.0
"""How long a call waits until the process has taken what was written."""


class ProcessInput:
    """The standard input of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None

    def write(self, data: str | bytes) -> None:
        """Send text or bytes.

        What the process does not take is waited for by a thread, which ends with the process at the latest; until
        then nothing else is taken.

        Raises:
            BrokenPipeError: The process has ended, has closed its input, or does not read.
            TypeError: The data is neither text nor bytes.
        """
        failures: list[Exception] = []

        def write() -> None:
            try:
                self._process.write(data)
            except (OSError, TypeError, TerminalError) as error:
                failures.append(error)

        with self._lock:
            if self._writer and self._writer.is_alive():
                raise BrokenPipeError("it has not read yet what it was sent before, so that this was not sent")
            self._writer = threading.Thread(target=write, name="hermes-write", daemon=True)
            self._writer.start()
            self._writer.join(WRITE_SECONDS)
            if self._writer.is_alive():
                raise BrokenPipeError("it has not read all of this; the rest waits until it does")
        if failures:
            with contextlib.suppress(IndexError):
                raise failures[0]
