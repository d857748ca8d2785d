"""Standard input passed on to a command, and its output written, as they come."""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from typing import Protocol, TextIO

from environments.errors import TerminalError
from environments.model_view import HarmlessText
from environments.output import Channel, LiveText

BROKEN_PIPE_EXIT_CODE = 141
"""128 + SIGPIPE, the exit code of a shell for a command whose reader has closed the pipe."""
PIECE = 256 * 1024
"""Bytes that are read at a time, and so the most that is ever held here."""
_POLL = 100
"""Milliseconds between checks whether output that waits for a slow reader is still wanted."""
_WHOLE = 1024 * 1024
_LAST_WORDS = 1000
"""Milliseconds in which a terminal has to have room for the last line of a command."""


class LiveOutput:
    """Writes output to standard output, and standard error to its own stream if it is separate. An `OutputSink`.

    Args:
        when_reader_leaves: Called once, when a reader has closed its end.
        raw: Whether a terminal gets everything as it is. Otherwise it gets no controls but colours: a title, the
            clipboard and the screen are not for a target to set. A pipe or a file always gets everything.
        separate: Whether standard error is written to standard error. Otherwise both are one stream.
    """

    def __init__(self, when_reader_leaves: Callable[[], object], raw: bool = False, *, separate: bool = False) -> None:
        if sys.stdout is None:
            raise TerminalError("standard output is closed; redirect it to /dev/null instead")
        self.separate = separate
        self._stdout = _Stream(sys.stdout, "standard output", when_reader_leaves, raw)
        self._streams = {Channel.STDOUT: self._stdout}
        if separate and sys.stderr is not None:
            self._streams[Channel.STDERR] = _Stream(sys.stderr, "standard error", when_reader_leaves, raw)

    @property
    def reader_left(self) -> bool:
        """True once a reader has closed its end, as after `| head -1`."""
        return any(stream.reader_left for stream in self._streams.values())

    def write(self, text: str) -> None:
        """Write text to standard output at once."""
        self._stdout.write(text)

    def add(self, channel: Channel, data: bytes) -> None:
        """Write bytes at once, see `OutputSink`."""
        if stream := self._streams.get(channel):
            stream.add(data)

    def freeze(self) -> None:
        """Write nothing more, and wait for no reader, see `OutputSink`."""
        for stream in self._streams.values():
            stream.is_frozen = True

    def finish(self) -> None:
        """Write what was held back, and reset the colours."""
        for stream in self._streams.values():
            stream.finish()


class _Stream:
    """Writes to one file, byte for byte unless it is a terminal."""

    def __init__(self, file: TextIO, name: str, when_reader_leaves: Callable[[], object], raw: bool) -> None:
        self._name = name
        self._when_reader_leaves = when_reader_leaves
        self._harmless = HarmlessText() if file.isatty() and not raw else None
        self._text = LiveText()
        self._encoding = file.encoding or "utf-8"
        self._descriptor = _nonblocking(file.fileno())
        # A pipe or a terminal with any room takes this much without waiting for its reader.
        self._step = _WHOLE if stat.S_ISREG(os.fstat(self._descriptor).st_mode) else select.PIPE_BUF
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self.is_frozen = False
        self.reader_left = False

    def write(self, text: str) -> None:
        shown = self._harmless.feed(text) if self._harmless else text
        self._write(shown.encode(self._encoding, "replace"))

    def add(self, data: bytes) -> None:
        if self._harmless:
            self.write(self._text.feed(data))
        else:
            self._write(data)

    def finish(self) -> None:
        if self._harmless:
            self.is_frozen = False
            held = self._harmless.feed(self._text.feed(b"", final=True), final=True)
            self._write(held.encode(self._encoding, "replace"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not (self.reader_left or self.is_frozen):
            if not self._room.poll(_POLL):
                continue
            try:
                view = view[os.write(self._descriptor, view[: self._step]) :]
            except BlockingIOError:  # another program that shares it has set it so, and it is full
                continue
            except BrokenPipeError:
                self.reader_left = True
                self._when_reader_leaves()
            except OSError as error:
                raise TerminalError(f"cannot write to {self._name}: {error.strerror}") from error


def _nonblocking(descriptor: int) -> int:
    """Return a descriptor of the same terminal on which a write never waits; for anything else the descriptor itself.

    A terminal that is stopped may have room for a part of the data, and a write would wait for the rest. The given
    descriptor cannot be made non-blocking, as other programs share it.
    """
    if not os.isatty(descriptor):
        return descriptor
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # it is another user's, or its path is not visible from here
        return descriptor


def has_room(descriptor: int) -> bool:
    """Wait shortly until a descriptor takes output, and return whether it does."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    return any(state == select.POLLOUT for _, state in room.poll(_LAST_WORDS))


def goes_to_one_place() -> bool:
    """Return whether standard output and standard error are the same file, pipe or terminal."""
    if sys.stdout is None or sys.stderr is None:
        return False
    return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())


def standard_input() -> int | None:
    """Return the descriptor of a standard input to pass on; None if it is closed, or a terminal."""
    return None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno()


class TakesInput(Protocol):
    """The receiver of an input: a `Process`, or the `Keys` of a terminal."""

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises BrokenPipeError if no more are taken."""

    def close_stdin(self) -> None:
        """Note the end of the input."""


class InputPump:
    """Reads an input in a thread, and writes it to a process, as fast as that reads.

    Args:
        source: The descriptor that is read. It stays open.
        process: The receiver. At the end of the input its standard input is closed.
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
        except BrokenPipeError:  # the process has ended, or reads no more
            return
        except OSError as error:  # such as a directory
            self._error = error
        except TerminalError:  # the target is gone, which the process reports itself
            return
        if not self._is_stopped():
            self._process.close_stdin()

    def _next(self) -> bytes:
        """Wait for the next bytes; empty at the end, and once it is stopped."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        while True:
            poll.poll()
            if self._is_stopped():
                return b""
            try:
                return os.read(self._source, PIECE)
            except BlockingIOError:  # another program that shares it was quicker
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
