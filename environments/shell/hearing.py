"""What a shell says: the output of the request that it runs, how that ended, and what it holds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from environments.shell.framing import FIELDS_OF, FrameScanner, Kind, Message
from environments.shell.state import SessionState, StateReports
from environments.shell.stream import Chunk
from environments.sink import Channel, OutputSink

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
        scanners: What reads its messages.
        variables: The `WATCHED` variables it began with.
        reported: What it holds from the beginning.
    """

    def __init__(
        self, scanners: Mapping[Channel, FrameScanner], variables: Mapping[str, str], reported: SessionState
    ) -> None:
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
        self._number = self._reported_number = 0
        self._told: tuple[Kind, tuple[bytes, ...]] | None = None
        self._unread: deque[tuple[Channel, bytes | Message]] = deque()
        self._waiting: set[Channel] = set()
        self._unannounced: set[Channel] = set()
        self._ended: Ended | None = None

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
