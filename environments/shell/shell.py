"""One shell process over one duplex stream: sending it commands and reading what came of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from environments.errors import EnvironmentStartError
from environments.shell.dialect import BASH, POSIX, Dialect, prelude
from environments.shell.framing import WATCHED, FrameScanner, Kind, Message
from environments.shell.output import Nowhere
from environments.shell.stream import Stream
from environments.sink import Channel, OutputSink

HANDSHAKE_TIMEOUT = 60.0
"""Seconds for a new shell to answer: a loaded machine may take several for what is usually milliseconds."""


RETIRE_TIMEOUT = 2.0
"""Seconds for a shell that is told to end to say its last words."""
LATE_READS = 64
"""How often to look for late output; a background job that never stops printing must not hold up a command."""


class Where(Enum):
    """Which process runs a command."""

    MAIN = "main"
    """The shell itself, so that what the command changes stays."""
    SUBSHELL = "sub"
    """A fork of the shell, so that nothing stays."""
    ATTACHED = "attached"
    """A fork of the shell with the stream's input as its own. If it succeeds, it has to have read all that was written
    for it, as the shell reads on behind it; if it fails, the shell ends too."""
    LAST = "last"
    """The shell itself, which then ends: the command has the stream's input as its own."""
    LAST_ON_TERMINAL = "tty"
    """The same on a terminal."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a shell is asked to run."""

    command: str
    where: Where = Where.MAIN
    cwd: str | None = None
    """The directory to run in. In the main shell it is for this command only."""
    cwd_required: bool = True
    """Whether not to run the command at all when that directory cannot be entered."""
    stdin_file: str | None = None
    """A file of the target that the command reads, and that is then removed."""
    separate: bool = False
    """Whether stderr is kept apart."""
    command_file: str | None = None
    """A file of the target that holds the command instead, for one that is long. It is removed."""
    checkpoint: bool = False
    """Whether to report the shell's state first, for a command that may end the shell without a farewell."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended."""

    exit_code: int | None
    """None when the shell ended without a word: it was killed, replaced by `exec`, or the target is gone."""


class Shell:
    """A running shell. One thread at a time may use it.

    Args:
        stream: The streams of a process started with `boot_argv`.
        marker: What the marker variable begins with for the commands of this shell.
        cwd: The directory to start in.
        restore: The last STATE of an earlier shell.
        known: The kind of shell, where it is known from an earlier one.
        on_terminal: Whether the stream is a terminal, whose echo must be off before anything is sent.

    Raises:
        EnvironmentStartError: It did not answer.
    """

    def __init__(
        self,
        stream: Stream,
        marker: str,
        *,
        cwd: str | None = None,
        restore: str = "",
        known: Dialect | None = None,
        on_terminal: bool = False,
    ) -> None:
        self.stream = stream
        self.marker = marker
        self.alive = True
        self.state = restore
        self.variables: Mapping[str, str] = {}
        self.cwd_failed = False
        self._ahead: list[bytes | Message] = []
        self._numbers = itertools.count(1)
        nonce = os.urandom(8).hex()
        self._scanners = {channel: FrameScanner(nonce) for channel in Channel}
        if on_terminal:
            self._await_raw_terminal()
        self._hello(prelude(nonce, marker, restore, cwd, known))

    def _await_raw_terminal(self) -> None:
        deadline = time.monotonic() + HANDSHAKE_TIMEOUT
        seen = b""
        while not seen.endswith(b"ok"):  # the login shell of an SSH user may greet first
            chunk = self.stream.read(max(0.0, deadline - time.monotonic()))
            if chunk is None or not chunk.data:
                self.close()
                raise EnvironmentStartError(f"the terminal could not be set up{_quote(seen)}")
            seen += chunk.data

    def _hello(self, text: str) -> None:
        deadline = time.monotonic() + HANDSHAKE_TIMEOUT
        noise = b""
        try:
            self.stream.write(text.encode("utf-8", "surrogateescape"))
            while True:
                chunk = self.stream.read(deadline - time.monotonic())
                if chunk is None or not chunk.data:
                    why = "gave no answer" if chunk is None else "ended at once"
                    raise EnvironmentStartError(f"the shell {why}{_quote(noise)}")
                for part in self._scanners[chunk.channel].feed(chunk.data):
                    if isinstance(part, bytes):
                        noise += part[:1000]
                    elif part.kind is Kind.READY:
                        self.pid = int(part.fields[0])
                        name = part.fields[1].decode()
                        self.dialect = BASH if name.startswith("bash") else POSIX
                        self.cwd_failed = name.endswith("1")
                        self._take_variables(part)
                        return
        except BrokenPipeError:
            self.close()
            raise EnvironmentStartError(f"the shell ended at once{_quote(noise)}") from None
        except BaseException:
            self.close()
            raise

    def _take_variables(self, message: Message) -> None:
        values = (field.decode("utf-8", "surrogateescape") for field in message.fields[-len(WATCHED) :])
        self.variables = dict(zip(WATCHED, values, strict=True))

    @property
    def cwd(self) -> str:
        """The shell's working directory after its last command."""
        return self.variables.get("PWD", "")

    def send(self, request: Request) -> str:
        """Send a request without waiting for it, and return the value of its marker variable.

        Raises:
            BrokenPipeError: The shell is gone; it did not get the whole request, so nothing was run.
        """
        number = next(self._numbers)
        self._discard_late_output()
        self.stream.write(self._frame(request, number).encode("utf-8", "surrogateescape"))
        return f"{self.marker}{number}/"

    def _frame(self, request: Request, number: int) -> str:
        call = self.dialect.call
        before, text, after = "", shlex.quote(request.command), ""
        if request.checkpoint:
            before += "__hx_state;"
        if request.command_file:
            path = shlex.quote(request.command_file)
            before += f'__hx_u="$(\\command -p cat {path})";\\command -p rm -f {path};'
            text = '"$__hx_u"'
        stdin = shlex.quote(request.stdin_file or "/dev/null")
        if request.stdin_file:
            after += f"\\command -p rm -f {stdin};"
        before += f"__hx_i={number} __hx_f={stdin} __hx_c={text};"
        if request.cwd is not None:
            go = f"{call} cd -- {shlex.quote(request.cwd)} >/dev/null"  # with CDPATH set, cd prints where it went
            go += " &&" if request.cwd_required else " 2>&1;"
            there = f'{go} {call} eval "$__hx_u"'
            before += f"__hx_u=$__hx_c __hx_c={shlex.quote(there)};"
            if request.where is Where.MAIN:  # the directory is for this command only; a fork leaves its own behind
                before += "__hx_w=$PWD __hx_o=${OLDPWD-};"
                after += f'{call} cd -- "$__hx_w" >/dev/null;OLDPWD=$__hx_o;'
        how = "separate" if request.separate else "merge"
        after = f"{after}\n" if after else ""  # not a byte too many: the last command's input comes right behind
        return f'{before}{call} eval "$__hx_{request.where.value}_{how}"\n{after}'

    def _discard_late_output(self) -> None:
        """Drop what background jobs printed since the last command: it is not the next one's output."""
        for _ in range(LATE_READS):
            chunk = self.stream.read(0)
            if chunk is None:
                return
            if not chunk.data:
                self.alive = False
                raise BrokenPipeError
            for part in self._scanners[chunk.channel].feed(chunk.data):
                if isinstance(part, Message):
                    self._take(part)

    def await_begin(self) -> None:
        """Wait until the shell has read a request to run its last command.

        Some shells read ahead, and would take as script what is written for the command before that.

        Raises:
            BrokenPipeError: The shell is gone.
        """
        while (chunk := self.stream.read(HANDSHAKE_TIMEOUT)) and chunk.data:
            parts = self._scanners[chunk.channel].feed(chunk.data)
            for index, part in enumerate(parts):
                if isinstance(part, Message) and part.kind is Kind.BEGIN:
                    self._ahead = parts[index + 1 :]
                    return
        self.alive = False
        raise BrokenPipeError

    def receive(
        self,
        output: OutputSink,
        deadline: float | None = None,
        on_deadline: Callable[[], object] | None = None,
    ) -> Ended:
        """Read until the request that was sent has ended.

        Args:
            output: Takes the command's output.
            deadline: When to call `on_deadline`, on the monotonic clock; None is never.
            on_deadline: Called once when that time comes; reading then goes on, so it must see to an end. Without
                it, reading just stops.
        """
        waiting = set(Channel) if output.separate else {Channel.STDOUT}
        ended = self._hand_on(Channel.STDOUT, self._ahead, output, waiting) or Ended(None)
        self._ahead = []
        while waiting:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            chunk = self.stream.read(left)
            if chunk is None:
                if on_deadline is None:
                    break
                deadline = None
                on_deadline()
            elif chunk.data:
                parts = self._scanners[chunk.channel].feed(chunk.data)
                ended = self._hand_on(chunk.channel, parts, output, waiting) or ended
            else:
                self.alive = False
                for channel in waiting:
                    output.add(channel, self._scanners[channel].rest())
                break
        return ended

    def _hand_on(
        self, channel: Channel, parts: list[bytes | Message], output: OutputSink, waiting: set[Channel]
    ) -> Ended | None:
        """Hand output on, and return how the request ended if one of the messages says so."""
        ended = None
        for part in parts:
            if isinstance(part, bytes):
                output.add(channel, part)
            elif (end := self._take(part)) is not None:
                waiting.discard(channel)
                ended = end
        return ended

    def _take(self, message: Message) -> Ended | None:
        """Note what a message says, and return how the request ended if it says so."""
        if message.kind is Kind.STATE:
            self.state = message.fields[0].decode("utf-8", "surrogateescape")
        if message.kind not in (Kind.END, Kind.EXIT):
            return None
        self.alive = self.alive and message.kind is Kind.END
        self._take_variables(message)
        return Ended(int(message.fields[1]))

    def retire(self) -> None:
        """End the shell at its leisure, so that it leaves its last state behind in `state`."""
        with contextlib.suppress(OSError):
            self.stream.close_write()
            self.receive(Nowhere(), time.monotonic() + RETIRE_TIMEOUT)
        self.close()

    def close(self) -> None:
        """End the shell. Commands it has put into the background are not ended."""
        self.alive = False
        self.stream.close()


def _quote(noise: bytes) -> str:
    text = noise.decode("utf-8", "replace").strip()
    return f": {text[:500]}" if text else ""
