"""Streams of the command line: standard input to a command, and output with back-pressure to the terminal or a pipe."""

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
"""128 + SIGPIPE: the exit code of a shell for a command after the reader closed the pipe."""
PIECE = 256 * 1024
"""Bytes per read, and so the size of the buffer."""
_POLL = 100
"""Milliseconds between checks for cancellation while waiting for a slow reader."""
_WHOLE = 1024 * 1024
_LAST_LINE = 1000
"""Milliseconds to wait for a terminal to accept the last line of a command."""


class LiveOutput:
    """Writes output to standard output, and optionally standard error to standard error. An `OutputSink`.

    Args:
        on_broken_pipe: Called once, after a reader closed the pipe.
        raw: True to pass all terminal controls. Otherwise a terminal receives only colours: a target must not set the
            title, the clipboard or the screen. A pipe or a file always receives all bytes.
        separate: True to write standard error to standard error. Otherwise both share a stream.
    """

    def __init__(self, on_broken_pipe: Callable[[], object], raw: bool = False, *, separate: bool = False) -> None:
        if sys.stdout is None:
            raise TerminalError("standard output is closed; redirect it to /dev/null instead")
        self.separate = separate
        self._stdout = _Stream(sys.stdout, "standard output", on_broken_pipe, raw)
        self._streams = {Channel.STDOUT: self._stdout}
        if separate and sys.stderr is not None:
            self._streams[Channel.STDERR] = _Stream(sys.stderr, "standard error", on_broken_pipe, raw)

    @property
    def reader_left(self) -> bool:
        """True once a reader has closed the pipe, such as `| head -1`."""
        return any(stream.reader_left for stream in self._streams.values())

    def write(self, text: str) -> None:
        """Write text to standard output at once."""
        self._stdout.write(text)

    def add(self, channel: Channel, data: bytes) -> None:
        """Write output at once, see `OutputSink`."""
        if stream := self._streams.get(channel):
            stream.add(data)

    def freeze(self) -> None:
        """Discard later output, and stop waiting for readers."""
        for stream in self._streams.values():
            stream.is_frozen = True

    def finish(self) -> None:
        """Flush buffered output, and reset the colours."""
        for stream in self._streams.values():
            stream.finish()


class _Stream:
    """Writes to a file descriptor, byte for byte except to a terminal."""

    def __init__(self, file: TextIO, name: str, on_broken_pipe: Callable[[], object], raw: bool) -> None:
        self._name = name
        self._on_broken_pipe = on_broken_pipe
        self._harmless = HarmlessText() if file.isatty() and not raw else None
        self._text = LiveText()
        self._encoding = file.encoding or "utf-8"
        self._descriptor = _nonblocking(file.fileno())
        # A pipe or a terminal with any room accepts PIPE_BUF bytes without blocking.
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
            except BlockingIOError:  # full, and set to non-blocking by another program that shares it
                continue
            except BrokenPipeError:
                self.reader_left = True
                self._on_broken_pipe()
            except OSError as error:
                raise TerminalError(f"cannot write to {self._name}: {error.strerror}") from error


def _nonblocking(descriptor: int) -> int:
    """Return a non-blocking file descriptor of the same terminal; for anything else return the descriptor unchanged.

    A stopped terminal may have room for a part of the data, and a write would block for the rest. The given descriptor
    cannot be made non-blocking, because other programs share it.
    """
    if not os.isatty(descriptor):
        return descriptor
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # the terminal belongs to another user, or its path is not visible here
        return descriptor


def accepts_output(descriptor: int) -> bool:
    """Wait up to one second for a file descriptor to accept output. Returns False for a stopped terminal."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    return any(state == select.POLLOUT for _, state in room.poll(_LAST_LINE))


def is_same_output() -> bool:
    """Return True if standard output and standard error are the same file, pipe or terminal."""
    if sys.stdout is None or sys.stderr is None:
        return False
    return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())


def standard_input() -> int | None:
    """Return the file descriptor of standard input; None if closed, or a terminal."""
    return None if sys.stdin is None or sys.stdin.isatty() else sys.stdin.fileno()


class InputReceiver(Protocol):
    """The receiver of an input: a `Process`, or the `Keys` of a terminal."""

    def write(self, data: bytes) -> None:
        """Receive bytes. Raises BrokenPipeError once the receiver has closed its input."""

    def close_stdin(self) -> None:
        """Receive the end of the input."""


class InputPump:
    """Copies an input to a process in a thread, only as fast as the process reads (back-pressure).

    Args:
        source: The file descriptor to read. Stays open.
        process: The receiver. The end of the input closes its standard input.
    """

    def __init__(self, source: int, process: InputReceiver) -> None:
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
        except BrokenPipeError:  # the process has ended, or has closed its input
            return
        except OSError as error:  # such as a directory
            self._error = error
        except TerminalError:  # the target was lost; the process reports the error
            return
        if not self._is_stopped():
            self._process.close_stdin()

    def _next(self) -> bytes:
        """Wait for the next bytes; empty at the end of the input, and after `stop`."""
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        while True:
            poll.poll()
            if self._is_stopped():
                return b""
            try:
                return os.read(self._source, PIECE)
            except BlockingIOError:  # another program that shares the input was faster
                continue

    def _is_stopped(self) -> bool:
        return bool(select.select([self._stopped], [], [], 0)[0])

    def stop(self) -> None:
        """Stop reading after the end of the process, and wait for the thread.

        Raises:
            TerminalError: Standard input could not be read.
        """
        os.close(self._stop)
        self._thread.join()
        os.close(self._stopped)
        if self._error:
            raise TerminalError(f"cannot read standard input: {self._error.strerror}")
