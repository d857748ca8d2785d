"""One shell on one stream: a state machine with its state, the requests sent to it and the messages received.

| state   | what may happen                                                | next                              |
|---------|----------------------------------------------------------------|-----------------------------------|
| OPENING | the prelude was sent                                           | IDLE by READY; ENDED              |
| IDLE    | a request may be sent                                          | RUNNING, before a byte is out     |
| RUNNING | the end of that request arrives, on all of its channels        | IDLE; ENDED by EXIT or stream end |
| UNFIT   | the wait for its request was given up; the shell is never lent | CLOSED                            |
| ENDED   | it announced its end, or its stream has ended                  | CLOSED                            |
| CLOSED  | its stream is closed                                           |                                   |

All code runs on the loop thread without an await in a transition, so no transition is ever half done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from environments.errors import EnvironmentStartError
from environments.log import logger
from environments.loop import current, done_within
from environments.output import Channel, Sink
from environments.shell.dialect.base import Dialect, ShellRequest, Where
from environments.shell.dialect.boot import Prelude, ShellSpec
from environments.shell.framing import FIELDS_OF, WATCHED, FrameScanner, Kind, Message
from environments.shell.output import Discarded
from environments.shell.state import SessionState, StateReports
from environments.shell.stream import Stream

ANSWER_LIMIT = 60.0
"""Seconds for an immediate answer of a shell: usually milliseconds, several seconds on a loaded machine."""
REPORT_LIMIT = 2.0
"""Seconds for the last state report of a shell."""
FIRST_QUERY = 10**9
"""Queries are numbered upwards from here, apart from commands."""
IN_PLACE, ELSEWHERE, NOWHERE = "0", "1", "2"
"""The directory of a new shell: the requested directory, the directory of the started process, or a removed
directory."""
_BOTH, _ONE = frozenset(Channel), frozenset({Channel.STDOUT})
_REPORTS = (Kind.STATE, Kind.PIECE, Kind.PIECES)

log = logger(__name__)


class State(Enum):
    """The state of a shell, see the table above."""

    OPENING = "opening"
    IDLE = "idle"
    RUNNING = "running"
    UNFIT = "unfit"
    ENDED = "ended"
    CLOSED = "closed"


class Ended(NamedTuple):
    """The end of a request."""

    exit_code: int | None
    """None if the shell ended without a message: killed, replaced by `exec`, or lost with the target."""
    left: bool = False
    """True if a process started by the command still runs."""


class Shell:
    """A shell. Made by `open_shell`."""

    def __init__(self, stream: Stream, spec: ShellSpec) -> None:  # noqa: PLR0915  # its whole state
        self.stream = stream
        self.state = State.OPENING
        self.dialect: Dialect
        self.pid = 0
        """The process id in the target."""
        self.home = ""
        """The home directory of the target's user."""
        self.start_place = IN_PLACE
        """The directory at the start, see `IN_PLACE`."""
        self.variables: dict[str, str] = {}
        """The `WATCHED` variables."""
        self.number = 0
        """The number of the last request."""
        self.has_leftovers = False
        """True if the last command left a process running."""
        self.is_noisy = False
        """True if output arrived while no command ran."""
        self.has_announced_end = False
        """True once the shell has announced its end."""
        self.is_given_up = False
        """True once the wait for the request has been given up."""
        self.has_begun = True
        """True if the last request may have begun."""
        self.sync_first = False
        """True if a signal may still be under way and must not hit the next command."""
        self.reported_number = 0
        """The number of the last request with a state report."""
        self.lags = spec.lags
        """True if earlier output may arrive after a request was sent."""
        self._prelude = Prelude(spec)
        self._scanners = {channel: FrameScanner(self._prelude.nonce) for channel in Channel}
        self._reports = StateReports(spec.state)
        self._noise = b""
        self._loop = current().loop
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._began: asyncio.Future[None] | None = None
        self._on_end: Callable[[Ended], object] | None = None
        self._reported: asyncio.Future[None] | None = None
        self._sink: Sink = Discarded()
        self._waiting: set[Channel] = set()
        self._unannounced: set[Channel] = set()
        self._awaited = self._report_due = self._report_due_before = 0
        self._query_number = FIRST_QUERY
        self._functions: set[str] = set()
        self._greeting = b"ok" if spec.on_terminal else b""
        self._prelude_text = self._prelude.text()
        stream.start(self)  # may already deliver received bytes
        if not spec.on_terminal:
            self._send_prelude()

    def _send_prelude(self) -> None:
        with contextlib.suppress(BrokenPipeError):  # the shell has ended, and its last output is still to be read
            self.stream.write(self._prelude_text)

    # Requests.

    @property
    def marker(self) -> str:
        """The prefix of the marker variable for all commands of this shell."""
        return self.dialect.marker

    @property
    def is_idle(self) -> bool:
        """True if a request can be sent."""
        return self.state is State.IDLE

    @property
    def reported(self) -> SessionState:
        """The last complete state report."""
        return self._reports.last

    @property
    def reported_before(self) -> SessionState:
        """The state before the last request, as far as reported."""
        return self._reports.before if self.reported_number == self.number else self._reports.last

    @property
    def has_reported(self) -> bool:
        """True once the state report of the last finished command has arrived."""
        return self.reported_number >= (self._report_due_before if self.state is State.RUNNING else self._report_due)

    def send(self, request: ShellRequest, sink: Sink, on_end: Callable[[Ended], object]) -> str:
        """Send a request.

        Args:
            request: The request.
            sink: Receives the output.
            on_end: Called at the end of the request.

        Returns:
            The value of the request's marker variable.

        Raises:
            BrokenPipeError: The shell is gone, and has received no complete request.
        """
        waiting = _BOTH if request.separate else _ONE
        self._report_due_before = self._report_due
        self._begin(self.number + 1, sink, waiting, on_end)
        self.number += 1
        takes_input = request.where.takes_input
        doubtful = self.lags or self.is_noisy or self.has_leftovers or self.dialect.reads_ahead
        announced = not takes_input and (doubtful or self.stream.unread() is None)
        self.has_begun = False
        if takes_input:
            self._unannounced, self._began = set(_ONE), self._loop.create_future()
        elif announced:
            self._unannounced = set(waiting)
        missing = tuple(text for text in request.functions if text not in self._functions)
        self._functions.update(missing)
        text = self.dialect.request(request._replace(functions=missing), self.number, announced=announced)
        if self.sync_first:
            text, self.sync_first = b":\n" + text, False
        if request.where is Where.MAIN:
            self._report_due = self.number
        self.is_noisy = False
        if request.separate:
            self.stream.resume()
        self._write(text)
        return f"{self.marker}{self.number}/"

    def _write(self, text: bytes) -> None:
        try:
            self.stream.write(text)
        except OSError as error:
            self.state = State.UNFIT
            raise BrokenPipeError(str(error)) from error

    async def query(self, text: Callable[[int], str], sink: Sink | None = None, limit: float = ANSWER_LIMIT) -> Ended:
        """Run internal text that ends with an END, and wait for the END.

        Args:
            text: Returns the text for a request number.
            sink: Receives the output.
            limit: Seconds to wait for the END.

        Raises:
            BrokenPipeError: The shell is gone, or did not answer.
        """
        answer: asyncio.Future[Ended] = self._loop.create_future()
        self._query_number += 1
        self._begin(self._query_number, sink or Discarded(), _ONE, answer.set_result)
        try:
            self._write(text(self._query_number).encode())
            if await done_within(answer, limit) and (ended := answer.result()).exit_code is not None:
                return ended
        finally:
            if not answer.done():
                self.give_up()
        raise BrokenPipeError("the shell gave no answer")

    def send_internal(self, text: str) -> None:
        """Run internal text without an answer."""
        with contextlib.suppress(BrokenPipeError):
            self._write(text.encode())

    def _begin(self, number: int, sink: Sink, waiting: frozenset[Channel], on_end: Callable[[Ended], object]) -> None:
        if self.state is not State.IDLE:
            raise BrokenPipeError(f"the shell is {self.state.value}")
        self.state = State.RUNNING
        self._awaited, self._sink, self._on_end = number, sink, on_end
        self._waiting, self._unannounced = set(waiting), set()

    async def wait_begun(self) -> None:
        """Wait until the shell has read a request for a command with the stream as its input.

        Some shells read ahead, and would take input written earlier as script.

        Raises:
            BrokenPipeError: The shell is gone, or did not answer.
        """
        began = self._began
        if began and not await done_within(began, ANSWER_LIMIT):
            self.give_up()
        if not self.has_begun:
            raise BrokenPipeError("the shell ended before it began the command")

    def give_up(self) -> None:
        """Give up the wait for the request. The shell may be anywhere in the command, and runs no other."""
        self._sink, self._on_end, self.is_given_up = Discarded(), None, True
        if self.state in (State.OPENING, State.IDLE, State.RUNNING):
            self.state = State.UNFIT

    def has_read_request(self) -> bool:
        """Return False if the shell has certainly not read the running request yet."""
        if not self.has_begun and self._unannounced:
            return False
        return self.has_begun or not self.stream.unread()

    async def report(self, limit: float = REPORT_LIMIT) -> None:
        """Wait for the state report for at most `limit` seconds."""
        if not self.has_reported and not self.stream.has_ended:
            if self._reported is None:
                self._reported = self._loop.create_future()
            self.stream.resume()
            await done_within(self._reported, limit)

    async def close(self) -> None:
        """Close the stream. Background processes of the shell's commands go on."""
        self.state = State.CLOSED
        await self.stream.close()

    # Messages.

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Process the shell's output, see `Receiver`."""
        if self._greeting:
            self._handle_greeting(data)
            return
        for part in self._scanners[channel].feed(data):
            if not isinstance(part, bytes):
                self._handle(channel, part)
            elif channel in self._waiting:
                # Output before the BEGIN is an earlier command's; output after the END is a leftover's.
                if channel not in self._unannounced:
                    self._sink.add(channel, part)
            elif self.state is State.IDLE:
                self.is_noisy = True
            elif self.state is State.OPENING:
                self._noise = self._noise[:4096] + part[:1000]

    def _handle_greeting(self, data: bytes) -> None:
        """Wait for the boot script's `ok`: echo is off. An SSH user's login shell may print a greeting first."""
        self._noise = (self._noise + data)[-4096:]
        if self._noise.endswith(self._greeting):
            self._greeting = self._noise = b""
            self._send_prelude()

    def _handle(self, channel: Channel, message: Message) -> None:
        kind = message.kind
        if kind in _REPORTS:
            if message.number >= self.reported_number and self._reports.add(message):
                self._handle_report(message.number)
        elif kind is Kind.READY:
            if self.state is State.OPENING:
                self._handle_ready(message)
        elif message.number != self._awaited or channel not in self._waiting:
            return
        elif kind is Kind.BEGIN:
            self._unannounced.discard(channel)
            self._handle_begin()
        elif (code := message.exit_code) is not None:
            self._handle_end(channel, message, code)

    def _handle_report(self, number: int) -> None:
        self.reported_number = number
        if not self.has_reported:
            return
        if self.state is State.IDLE:
            self.stream.rest(reports=False)
        if self._reported:
            self._reported.set_result(None)
            self._reported = None

    def _handle_begin(self) -> None:
        self.has_begun = True
        if self._began and not self._began.done():
            self._began.set_result(None)

    def _handle_ready(self, message: Message) -> None:
        self.variables = {name: message.text(4 + index) for index, name in enumerate(WATCHED)}
        self.dialect = self._prelude.dialect(message.text(1))
        self.pid, self.start_place, self.home = int(message.fields[0]), message.text(2), message.text(3)
        self.state = State.IDLE
        self._ready.set_result(None)

    def _handle_end(self, channel: Channel, message: Message, code: int) -> None:
        for index, name in enumerate(FIELDS_OF.get(message.kind, ()), 3):
            self.variables[name] = message.text(index)
        if message.kind in (Kind.EXIT, Kind.SESSION_EXIT):
            self.has_announced_end = True
        self._waiting.discard(channel)
        self._handle_begin()
        if not self._waiting:
            self._finish(Ended(code, message.fields[2] == b"1"))

    def _finish(self, ended: Ended) -> None:
        if self.state is State.RUNNING:
            self.state = State.ENDED if self.has_announced_end or ended.exit_code is None else State.IDLE
        self.has_leftovers = ended.left
        if self.state is State.IDLE:
            self.stream.rest(reports=self.reported_number < self._report_due)
        self._sink = Discarded()
        if on_end := self._on_end:
            self._on_end = None
            on_end(ended)

    def stream_ended(self) -> None:
        """Handle the end of the process or the link, see `Receiver`."""
        if self._waiting:
            self.has_begun = self.has_read_request()
            for channel in self._waiting - self._unannounced:
                self._sink.add(channel, self._scanners[channel].rest())
            self._waiting = set()
            self.has_announced_end = False  # the output of one channel may be incomplete
            self._finish(Ended(None))
        if self.state is not State.CLOSED:
            self.state = State.ENDED
        for future in (self._ready, self._reported, self._began):
            if future and not future.done():
                future.set_result(None)

    async def await_ready(self, check: Callable[[], object]) -> None:
        """Wait for READY, see `open_shell`."""
        deadline = self._loop.time() + ANSWER_LIMIT
        while not await done_within(self._ready, CHECK_AGAIN):
            check()
            if self._loop.time() > deadline:
                raise EnvironmentStartError(f"the shell gave no answer for {ANSWER_LIMIT:.0f} s{self._quote()}")
        if self.state is not State.IDLE:
            raise EnvironmentStartError(f"the shell ended at once{self._quote()}")

    def _quote(self) -> str:
        text = self._noise.decode("utf-8", "replace").strip()
        return f": {text[:500]}" if text else ""


CHECK_AGAIN = 0.25
"""Seconds between two calls of `check` while a new shell has not answered."""


async def open_shell(stream: Stream, spec: ShellSpec, check: Callable[[], object] = lambda: None) -> Shell:
    """Make a shell of a process started with `boot_argv`; close the stream on any error.

    Args:
        stream: The process.
        spec: The start configuration of the shell.
        check: Called every `CHECK_AGAIN` seconds during the wait; may raise to end the wait.

    Raises:
        EnvironmentStartError: The shell did not answer.
    """
    began = current().loop.time()
    shell = Shell(stream, spec)
    try:
        await shell.await_ready(check)
    except BaseException:
        await stream.close()
        raise
    took = current().loop.time() - began
    log.debug("shell %s, process %d there, answered after %.3f s", shell.dialect.name, shell.pid, took)
    return shell
