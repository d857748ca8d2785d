"""What a shell says: the output of the request that it runs, how that ended, and what it holds."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from environments.shell.framing import FIELDS_OF, FrameScanner, Kind, Message
from environments.shell.state import SessionState, StateReports
from environments.shell.stream import Chunk, CountingStream, PollingStream, Stream
from environments.sink import Channel, OutputSink

REPORT_TIMEOUT = 2.0
"""Seconds for the last words of a shell that has ended."""
LONGEST_WAIT = 1.0
"""Seconds for which a stream is asked to wait at a time. A signal that comes between Python's last look for one and the
system call that waits does not end that call: its handler, control-C's too, runs when the wait is over."""
LATE_READS = 64
"""How often to look for late output; a background job that never stops printing must not hold up a command."""
_REPORTS = (Kind.STATE, Kind.PIECE, Kind.PIECES)
"""What a shell says of what it holds."""


class ShellState(Enum):
    """What a shell is doing. A new one is opening for as long as `opening.open_shell` has it."""

    IDLE = "idle"
    """It waits for a request."""
    RUNNING = "running"
    """It has been sent a request, at least in part, whose end has not been read."""
    ENDED = "ended"
    """Its process has ended, or said that it will."""
    UNFIT = "unfit"
    """It may be anywhere. It is ended, and never lent again."""
    CLOSED = "closed"
    """Its stream is closed."""


class Ended(NamedTuple):
    """How a request ended."""

    exit_code: int | None
    """None when the shell ended without a word: it was killed, replaced by `exec`, or the target is gone."""
    left: bool = False
    """Whether something that the command started is still there."""


class Hearing:
    """The part of a shell that takes what it says.

    Args:
        stream: The streams of its process.
        scanners: What reads its messages.
        variables: The `WATCHED` variables it began with.
        reported: What it holds from the beginning.
    """

    def __init__(
        self,
        stream: Stream,
        scanners: Mapping[Channel, FrameScanner],
        variables: Mapping[str, str],
        reported: SessionState,
    ) -> None:
        self.stream = stream
        self.state = ShellState.IDLE
        self.variables = dict(variables)
        self.is_noisy = False
        """Whether something was printed while no command ran."""
        self.last_words = False
        """Whether it said that it ends."""
        self.on_begin: Callable[[], object] | None = None
        """Called when the shell says that a command has begun."""
        self.has_begun = True
        """Whether the request that it was sent last may have begun. What was killed while it was idle takes one too."""
        self._scanners = scanners
        self._reports = StateReports(reported)
        self._number = self._reported_number = self._due = self._due_before = 0
        self._told: tuple[Kind, tuple[bytes, ...]] | None = None
        self._unread: deque[tuple[Channel, bytes | Message]] = deque()
        self._waiting: set[Channel] = set()
        self._unannounced: set[Channel] = set()
        self._ended: Ended | None = None

    @property
    def stream(self) -> Stream:
        """The streams of its process."""
        return self._stream

    @stream.setter
    def stream(self, stream: Stream) -> None:
        self._stream = stream
        self._counting = stream if isinstance(stream, CountingStream) else None
        self._longest_wait = stream.longest_wait if isinstance(stream, PollingStream) else LONGEST_WAIT

    @property
    def reported(self) -> SessionState:
        """The last whole report of what it holds."""
        return self._reports.last

    @property
    def reported_number(self) -> int:
        """The number of the request behind which it has reported last what it holds; 0 if it has not."""
        return self._reported_number

    def _forget(self) -> None:
        """Forget what was said of earlier requests, and not taken by anybody."""
        self._unread.clear()
        self._unannounced = set()
        self._ended = None

    def _feed(self, chunk: Chunk) -> None:
        channel = chunk.channel
        self._unread.extend((channel, part) for part in self._scanners[channel].feed(chunk.data))

    def _take_late(self, chunk: Chunk) -> None:
        """Take what comes while no request runs: what messages say is noted, and output dropped."""
        for part in self._scanners[chunk.channel].feed(chunk.data):
            if isinstance(part, Message):
                self._note(part)
            else:
                self.is_noisy = True

    def _take_begin(self) -> bool:
        """Take the BEGIN of the request that runs, with what it makes no part of its output; return if it has come."""
        for index, (_, part) in enumerate(self._unread):
            if isinstance(part, Message) and part.kind is Kind.BEGIN and part.number == self._number:
                # What came before on the same channel is not the command's; on the other it may be.
                before = [item for item in list(self._unread)[:index] if item[0] is not Channel.STDOUT]
                self._unread = deque([*before, *list(self._unread)[index + 1 :]])
                return True
        return False

    def _take_reports(self) -> None:
        """Take what it says of what it holds, before what came earlier is taken."""
        for channel, part in list(self._unread):
            if isinstance(part, Message) and part.kind in _REPORTS:
                self._unread.remove((channel, part))
                self._note(part)

    def _hand_on(self, output: OutputSink) -> None:
        """Hand output on, and take what messages say. What raises leaves the rest for the next time."""
        while self._unread:
            channel, part = self._unread.popleft()
            if isinstance(part, bytes):
                # What comes before the beginning is an earlier command's, and behind the end it is left from this one.
                if channel in self._waiting and channel not in self._unannounced:
                    output.add(channel, part)
            elif part.kind is Kind.BEGIN:
                if part.number == self._number:
                    self._unannounced.discard(channel)
                    self.has_begun = True
                    if self.on_begin:
                        self.on_begin()
            elif (end := self._note(part)) is not None and channel in self._waiting:
                self._waiting.discard(channel)
                self._ended = end

    def _note(self, message: Message) -> Ended | None:
        """Note what a message says, and return how the request ended if it says that of the one that runs."""
        kind = message.kind
        if kind in _REPORTS:
            if message.number >= self._reported_number and self._reports.take(message):
                self._reported_number = message.number
            return None
        if kind is Kind.BEGIN or message.number != self._number or self.state is ShellState.IDLE:
            return None
        if (names := FIELDS_OF.get(kind)) and self._told != (kind, message.fields[3:]):
            self._told = kind, message.fields[3:]
            values = (message.text(index) for index in range(3, len(message.fields)))
            self.variables = {**self.variables, **dict(zip(names, values, strict=True))}
        if kind in (Kind.EXIT, Kind.SESSION_EXIT):
            self.state = ShellState.ENDED
            self.last_words = True
        return Ended(message.exit_code, left=message.fields[2] == b"1")

    # What comes while no request runs.

    def _discard_late_output(self) -> None:
        """Drop what background jobs printed since the last command: it is not the next one's output."""
        for _ in range(LATE_READS):
            if not self._overhear(0):
                return

    def _overhear(self, wait: float) -> bool:
        """Read once while no request runs: what messages say is noted, and output dropped. Returns if anything came.

        Raises:
            BrokenPipeError: The shell has ended.
        """
        chunk = self.stream.read(min(wait, self._longest_wait))
        if chunk is None:
            return False
        if not chunk.data:
            self.state = ShellState.ENDED
            raise BrokenPipeError
        self._take_late(chunk)
        return True

    def await_report(self, limit: float = REPORT_TIMEOUT) -> None:
        """Read until the shell has reported what it holds since its last command, or `limit` seconds are over."""
        deadline = time.monotonic() + limit
        with contextlib.suppress(BrokenPipeError):
            while self._reported_number < self._due and (left := deadline - time.monotonic()) > 0:
                self._overhear(left)

    @property
    def has_reported(self) -> bool:
        """Whether it has said what the last command that has ended left it with."""
        return self._reported_number >= (self._due_before if self.state is ShellState.RUNNING else self._due)

    def catch_up(self, limit: float = REPORT_TIMEOUT) -> None:
        """Do what `await_report` does, also while a request runs that the current thread reads: then behind the last.

        What the request prints meanwhile is kept for whoever reads that.
        """
        if self.state is not ShellState.RUNNING:
            self.await_report(limit)
            return
        deadline = time.monotonic() + limit
        while not self.has_reported and (left := deadline - time.monotonic()) > 0:
            chunk = self.stream.read(left)
            if chunk is None or not chunk.data:  # its end is read once more by whoever waits for that
                return
            self._feed(chunk)
            self._take_reports()

    def retire(self) -> None:
        """Have a shell that may be anywhere end, so that it reports what it holds."""
        deadline = time.monotonic() + REPORT_TIMEOUT
        with contextlib.suppress(OSError):  # if it is gone; what it had reported is still to be read
            self.stream.close_write()
        with contextlib.suppress(BrokenPipeError):
            self.drop_output(deadline)

    def drop_output(self, deadline: float) -> None:
        """Read and drop what comes while no request runs.

        Raises:
            BrokenPipeError: The shell ended before the deadline.
        """
        while (left := deadline - time.monotonic()) > 0:
            self._overhear(left)
