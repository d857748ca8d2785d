"""Standard output, written as a target's output arrives."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable

from environments.errors import TerminalError
from environments.model_view import HarmlessText
from environments.output import Channel, LiveText

BROKEN_PIPE_EXIT_CODE = 141
"""128 + SIGPIPE, what a shell returns for a command whose reader has gone."""
_POLL = 100
"""Milliseconds between looks at whether what waits for a slow reader is still wanted."""
_WHOLE = 1024 * 1024


class LiveOutput:
    """Standard output, byte for byte unless it is a terminal. It is an `OutputSink` too.

    Args:
        when_reader_leaves: Called once nobody reads any more.
        raw: Whether a terminal gets everything as it is. Otherwise it gets no controls but colours, as a title, the
            clipboard or the screen are not for a target to set. What is no terminal always gets everything.
    """

    separate = False

    def __init__(self, when_reader_leaves: Callable[[], object], raw: bool = False) -> None:
        if sys.stdout is None:
            raise TerminalError("standard output is closed; send it to /dev/null if nobody wants it")
        self._when_reader_leaves = when_reader_leaves
        self._harmless = HarmlessText() if sys.stdout.isatty() and not raw else None
        self._text = LiveText()
        self._encoding = sys.stdout.encoding or "utf-8"
        self._descriptor = _of_our_own(sys.stdout.fileno())
        # To what is no file, this much can be written without waiting for a reader once there is room at all.
        self._step = _WHOLE if stat.S_ISREG(os.fstat(self._descriptor).st_mode) else select.PIPE_BUF
        self._room = select.poll()
        self._room.register(self._descriptor, select.POLLOUT)
        self._frozen = False
        self.reader_left = False
        """Whether nobody reads any more, as after `| head -1`."""

    def write(self, text: str) -> None:
        """Show a piece of text at once."""
        shown = self._harmless.feed(text) if self._harmless else text
        self._write(shown.encode(self._encoding, "replace"))

    def add(self, channel: Channel, data: bytes) -> None:
        """Show bytes at once, see `OutputSink`."""
        if self._harmless:
            self.write(self._text.feed(data))
        else:
            self._write(data)

    def freeze(self) -> None:
        """Show nothing more, and let nobody wait for a reader, see `OutputSink`."""
        self._frozen = True

    def finish(self) -> None:
        """Show what was held back, and no colour from here on."""
        if self._harmless:
            self._frozen = False
            held = self._harmless.feed(self._text.feed(b"", final=True), final=True)
            self._write(held.encode(self._encoding, "replace"))

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not (self.reader_left or self._frozen):
            if not self._room.poll(_POLL):
                continue
            try:
                view = view[os.write(self._descriptor, view[: self._step]) :]
            except BlockingIOError:  # it was set so by somebody else who has it open, and is full
                continue
            except BrokenPipeError:
                self.reader_left = True
                self._when_reader_leaves()
            except OSError as error:
                raise TerminalError(f"cannot write to standard output: {error.strerror}") from error


def _of_our_own(descriptor: int) -> int:
    """Return a descriptor of the same terminal on which a write never waits; of all else the descriptor itself.

    A terminal that is held up has room for a part of what is to be written to it, and a write would wait for the rest.
    That its descriptor should not wait cannot be said of the given one: other programs have it, too.
    """
    if not os.isatty(descriptor):
        return descriptor
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:  # it is another user's, or of a place that cannot be seen from here
        return descriptor
