"""One shell process over one duplex stream: what state it is in, what it is asked, and what came of it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping

from environments.errors import TerminalError
from environments.shell.dialect.base import Dialect
from environments.shell.dialect.bash import Bash
from environments.shell.dialect.bash_state import USUAL_OPTIONS
from environments.shell.framing import FrameScanner
from environments.shell.harmless import changes_nothing, is_plain
from environments.shell.hearing import Ended, Hearing, ShellState
from environments.shell.output import Nowhere
from environments.shell.request import Request, Where
from environments.shell.state import SessionState
from environments.shell.stream import CountingStream, Stream
from environments.sink import Channel, OutputSink

ANSWER_TIMEOUT = 60.0
"""Seconds for a shell to answer at once: a loaded machine may take several for what is usually milliseconds."""
AT_ONCE = 0.0005
"""Seconds behind the end of a command in which the shell is taken to be alive still: nobody could have killed it."""
FIRST_QUESTION = 10**9
"""The number before that of the first question, which are not counted among the commands."""
_BOTH = frozenset(Channel)
_ONE = frozenset({Channel.STDOUT})


class Shell(Hearing):
    """A running shell. One thread at a time may use it.

    Args:
        stream: The streams of the process.
        dialect: How to speak to it.
        scanners: What reads its messages.
        pid: Its process id in the target.
        variables: The `WATCHED` variables it began with.
        home: The target user's home directory.
        reported: What it holds from the beginning.
        lags: Whether what it printed earlier may arrive after a request was sent.
    """

    def __init__(
        self,
        stream: Stream,
        dialect: Dialect,
        scanners: Mapping[Channel, FrameScanner],
        pid: int,
        variables: Mapping[str, str],
        home: str,
        reported: SessionState,
        lags: bool = False,
    ) -> None:
        super().__init__(stream, scanners, variables, reported)
        self._counts: CountingStream | None = None
        self.dialect = dialect
        self.pid = pid
        self.home = home
        self.has_leftovers = False
        """Whether its last command left something running."""
        self.sync_first = False
        """Whether a signal may be on its way to it, which is not to meet its next command."""
        self.lags = lags
        self._count = 0
        self._asked = FIRST_QUESTION
        self._rests_since = -math.inf

    @property
    def marker(self) -> str:
        """What the marker variable begins with for the commands of this shell."""
        return self.dialect.marker

    @property
    def fit(self) -> bool:
        """Whether it can be sent a request."""
        return self.state is ShellState.IDLE

    def send(self, request: Request) -> str:
        """Send a request without waiting for it, and return the value of its marker variable.

        Raises:
            BrokenPipeError: The shell is gone; it did not get the whole request, so nothing was run.
            TerminalError: It is not idle.
        """
        self._due_before = self._due
        self._begin()
        self._count += 1
        self._number = number = self._count
        reports = not self._knows_that_nothing_changes(request)
        rested = time.monotonic() - self._rests_since > AT_ONCE
        takes_input = request.where.takes_input
        self._counts = self._counting if rested and not takes_input else None
        doubtful = (rested and not self._counts) or self.lags or self.is_noisy or self.dialect.on_terminal
        announced = doubtful and not takes_input
        literal = not reports and is_plain(request.command) and self.reported.options <= USUAL_OPTIONS
        text = self.dialect.request(request, number, announced=announced, reports=reports, literal=literal)
        self._waiting = set(_BOTH if request.separate else _ONE)
        self.has_begun = not announced
        if announced:
            self._unannounced = set(self._waiting)
        self.stream.write(b":\n" + text if self.sync_first else text)
        self.sync_first = False
        if reports:
            self._due = number
        return f"{self.marker}{number}/"

    def _knows_that_nothing_changes(self, request: Request) -> bool:
        """Whether a command cannot change what was reported last, and that is up to date."""
        known = self._reported_number == self._due > 0 and isinstance(self.dialect, Bash)
        plain = request.where is Where.MAIN and request.cwd is None and not request.env and not request.separate
        plain = plain and not request.exports
        return known and plain and changes_nothing(request.command, self.reported.functions)

    @property
    def number(self) -> int:
        """The number of the last request that it was sent."""
        return self._count

    def ask(self, text: Callable[[int], str], output: OutputSink | None = None, limit: float = ANSWER_TIMEOUT) -> Ended:
        """Have it run text of our own that ends with an END, and return that.

        Args:
            text: Makes the text, of the number of the request.
            output: Takes what the text prints.
            limit: Seconds until that END must have come.

        Raises:
            BrokenPipeError: It is gone, or gave no answer.
        """
        self._begin()
        self._asked += 1
        self._number = self._asked
        self._waiting = {Channel.STDOUT}
        self.stream.write(text(self._number).encode())
        ended = self.receive(output or Nowhere(), time.monotonic() + limit)
        if ended.exit_code is None:
            self.state = ShellState.UNFIT
            raise BrokenPipeError
        return ended

    def tell(self, text: str) -> None:
        """Have it run text of our own that says nothing."""
        self.stream.write(text.encode())

    def waits(self) -> bool:
        """Whether it waits for a request: it is fit, and its stream has not said by now that it has ended."""
        if self.fit:
            with contextlib.suppress(BrokenPipeError):
                self._discard_late_output()
        return self.fit

    def _begin(self) -> None:
        if self.state in (ShellState.ENDED, ShellState.CLOSED):
            raise BrokenPipeError
        if self.state is not ShellState.IDLE:
            raise TerminalError(f"a shell that is {self.state.value} was asked to run a command")
        self._discard_late_output()
        # From here on whatever is raised leaves it running, and so unfit for others.
        self.state = ShellState.RUNNING
        self._forget()

    def was_told_to_leave(self, *, killed: bool) -> None:
        """Note that a signal may be on its way, which is not to meet the next command.

        Args:
            killed: Whether it is one that ends the shell.
        """
        self.sync_first = True
        if self.state is ShellState.IDLE and (killed or not self.dialect.can_leave):
            self.state = ShellState.UNFIT

    def await_begin(self) -> None:
        """Wait until the shell has read a request to run its last command.

        Some shells read ahead, and would take as script what is written for the command before that.

        Raises:
            BrokenPipeError: The shell is gone.
        """
        deadline = time.monotonic() + ANSWER_TIMEOUT
        while (left := deadline - time.monotonic()) > 0 and (chunk := self.stream.read(left)) and chunk.data:
            self._feed(chunk)
            if self._take_begin():
                return
        self.state = ShellState.UNFIT
        raise BrokenPipeError

    def receive(
        self,
        output: OutputSink,
        deadline: float | None = None,
        on_deadline: Callable[[], float | None] | None = None,
    ) -> Ended:
        """Read until the request that was sent has ended.

        Args:
            output: Takes the command's output.
            deadline: When to call `on_deadline`, on the monotonic clock; None is never.
            on_deadline: Called when that time comes, and returns the next one. When it returns None it has seen to an
                end, up to which is read. Without it, reading just stops, and the shell stays as it is: running.
        """
        self._hand_on(output)
        while self._waiting:
            wait = self._longest_wait
            if deadline is not None:
                wait = min(wait, deadline - time.monotonic())
                if wait <= 0:
                    if on_deadline is None:
                        return Ended(None)
                    deadline = on_deadline()
                    continue
            chunk = self.stream.read(wait)
            if chunk is None:
                continue
            if not chunk.data:
                self.state = ShellState.ENDED
                self.has_begun = self.has_begun and not (self._counts and self._counts.unread_bytes())
                for channel in self._waiting:
                    output.add(channel, self._scanners[channel].rest())
                self._ended = None if self._waiting else self._ended  # of one channel something may be missing
                break
            self._feed(chunk)
            self._hand_on(output)
        ended = self._ended or Ended(None)
        if ended.exit_code is not None and self.state is ShellState.RUNNING:
            self.state = ShellState.IDLE
            self._rests_since = time.monotonic()
            self.has_leftovers = ended.left
        return ended

    @property
    def stream_ended(self) -> bool:
        """Whether its process is known to have ended."""
        return self.state in (ShellState.ENDED, ShellState.CLOSED)

    def close(self) -> None:
        """End the shell. Commands it has put into the background are not ended."""
        self.state = ShellState.CLOSED
        self.stream.close()
