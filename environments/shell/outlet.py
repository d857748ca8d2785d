"""A new way out for a shell, once something that is left of a command could write where the shell speaks.

What comes on its first stream from then on belongs to nobody: it is read and dropped. The shell speaks into two pipes
in the target, and another process, on a stream of its own, brings what comes out of them. When something is left once
more, that process makes new pipes, and goes on to empty the old ones in the target.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable

from environments.shell.dialect.commands import outlet_argv
from environments.shell.shell import ANSWER_TIMEOUT
from environments.shell.stream import Chunk, Stream, Terminal
from environments.sink import Channel

QUIET = 0.5
"""Seconds without output after which the last words of a shell that has ended have come."""
_POLL = 0.1


class Outlet:
    """Brings what a shell writes into pipes.

    Args:
        open_process: Starts a program in the target.
        marker: The marker of that program.
    """

    def __init__(self, open_process: Callable[[list[str]], Stream], marker: str) -> None:
        self._word = os.urandom(8).hex()
        self.stream = open_process(outlet_argv(marker, self._word))
        self.last_read = time.monotonic()

    def new_pipes(self) -> str:
        """Have new pipes made, and return their directory. What came out of the old ones has been read by then.

        Raises:
            BrokenPipeError: They could not be made.
        """
        self.stream.write(b"next\n")
        mark = b"\x1e" + self._word.encode() + b" "
        seen = dict.fromkeys(Channel, b"")
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while not all(mark in text and text.endswith(b"\n") for text in seen.values()):
            chunk = self.stream.read(max(0.0, deadline - time.monotonic()))
            if chunk is None or not chunk.data:
                raise BrokenPipeError
            text = seen[chunk.channel] + chunk.data
            found = text.find(mark)
            seen[chunk.channel] = text[found:] if found >= 0 else text[-len(mark) :]
        return seen[Channel.STDOUT].removeprefix(mark).decode().rstrip("\n")

    def opened(self) -> None:
        """Note that the shell has the pipes open: they need no name any more."""
        self.stream.write(b"opened\n")

    def read(self, timeout: float | None) -> Chunk | None:
        """Read what the shell says, see `Stream.read`."""
        chunk = self.stream.read(timeout)
        self.last_read = time.monotonic()
        return chunk


class RedirectedStream:
    """The stream of a shell that speaks through an outlet. See `Stream`.

    Args:
        first: The stream that it was opened on, and still listens to.
        outlet: Where it speaks.
    """

    def __init__(self, first: Stream, outlet: Outlet) -> None:
        self.first = first
        self.outlet = outlet
        self._closed = threading.Event()
        self._ended = False
        self.reader = threading.Thread(target=self._drop_first, name="hermes-drain", daemon=True)
        """Listens to `first`. It ends with the shell, or with a read that was under way when this was closed."""
        self.reader.start()

    def _drop_first(self) -> None:
        """Read what nobody wants until the shell has ended, and then let the reader of the outlet know."""
        while not self._closed.is_set():
            chunk = self.first.read(60.0)
            if chunk is not None and not chunk.data:
                break
        self._ended = True
        while time.monotonic() - self.outlet.last_read < QUIET and not self._closed.wait(_POLL):
            pass
        self.outlet.stream.close()

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes, see `Stream`."""
        return self.outlet.read(timeout)

    def write(self, data: bytes) -> None:
        """Send to the shell, see `Stream`. What it has left may hold its input open when it has ended."""
        if self._ended or self.first.exit_code(0) is not None:
            raise BrokenPipeError
        self.first.write(data)

    def close_write(self) -> None:
        """Let the shell see end of file, see `Stream`."""
        self.first.close_write()

    def resize(self, terminal: Terminal) -> None:
        """It has no terminal."""

    def exit_code(self, timeout: float) -> int | None:
        """Return how the shell ended, see `Stream`."""
        return self.first.exit_code(timeout)

    def close(self) -> None:
        """Give up both streams, see `Stream`."""
        self._closed.set()
        self.first.close()
        with contextlib.suppress(OSError):
            self.outlet.stream.close()
