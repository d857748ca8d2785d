"""Standard input, passed on to a command as it comes."""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import Protocol

from environments.errors import TerminalError

PIECE = 256 * 1024
"""Bytes that are read at a time, and so all that is ever held here."""


def standard_input() -> int | None:
    """Return the descriptor of a standard input to pass on; None if it is closed, or a terminal."""
    return None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno()


class TakesInput(Protocol):
    """What an input is written to, such as an `environments.process.Process`."""

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises BrokenPipeError if none are taken any more."""

    def close_stdin(self) -> None:
        """Note the end of the input."""


class InputPump:
    """Reads an input in a thread, and writes it to a process, as fast as that reads.

    Args:
        source: The descriptor of what is read. It stays open.
        process: Where it goes. At the end of the input the process sees that end.
    """

    def __init__(self, source: int, process: TakesInput) -> None:
        self._source = source
        self._process = process
        self._stopped, self._stop = os.pipe()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._run, name="hermes-stdin", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while data := self._next():
                self._process.write(data)
        except BrokenPipeError:  # it has ended, or reads no more
            return
        except OSError as error:  # such as a directory
            self._error = error
        except TerminalError:  # the target is gone, which the process says itself
            return
        if not self._is_stopped():
            self._process.close_stdin()

    def _next(self) -> bytes:
        """Wait for the next bytes. None are returned at the end, and when it is stopped."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        while True:
            poll.poll()
            if self._is_stopped():
                return b""
            try:
                return os.read(self._source, PIECE)
            except BlockingIOError:  # somebody else who has it open was quicker
                continue

    def _is_stopped(self) -> bool:
        return bool(select.select([self._stopped], [], [], 0)[0])

    def stop(self) -> None:
        """Read no more, once the process has ended, and wait for the thread.

        Raises:
            TerminalError: Standard input could not be read.
        """
        os.close(self._stop)
        self._thread.join()
        os.close(self._stopped)
        if self._error:
            raise TerminalError(f"cannot read standard input: {self._error.strerror}")
