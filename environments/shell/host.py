"""Another machine, on which a backend has its engine: what the environment that leads there has to offer for it.

That is what any environment with shells answers for itself, and it opens no shell of its own for this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from environments.errors import EnvironmentLostError
from environments.factory import host_at, host_over
from environments.loop import Call, Pieces, current, run, shielded, spawn
from environments.output import Channel, LiveText
from environments.settings import EnvironmentSettings
from environments.shell.lifecycle import answered
from environments.shell.output import Outcome, Output
from environments.shell.pool import opened
from environments.shell.stream import Discard, Stream, Terminal
from environments.starting import current_start

if TYPE_CHECKING:
    from environments.target import Address

MOST_OUTPUT = 1_000_000
"""Bytes that are kept of what a program of ours prints there."""
GRACE = 0.5
"""Seconds that such a program has to tidy up when it is ended."""
_PATIENCE = 2.0
"""Seconds until its stream is given up, when it was to be ended and did not."""
_EXIT_LIMIT = 5.0
"""Seconds for its exit code, once it has closed its output."""

# The program has a session of its own. The end of our input, or of the link, is its end.
_GUARDED = f"""\
exec 3<&0 </dev/null
setsid "$@" 3<&- & child=$!
{{ read -r _ <&3; kill -s TERM -- -$child; sleep {GRACE}; kill -s KILL -- -$child; }} >/dev/null 2>&1 & guard=$!
wait $child; code=$?
kill -KILL $guard 2>/dev/null
exit $code
"""


class Starter(Protocol):
    """Starts processes on a machine."""

    @property
    def place(self) -> str:
        """Where that is, for people, and to tell it from others."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process there, see `PersistentShellEnvironment`. Called in a worker thread."""

    def target_loss(self) -> str | None:
        """Say why it cannot be reached any more, see `PersistentShellEnvironment`."""


class RemoteHost(Starter, Protocol):
    """Another machine that processes can be started on."""

    max_streams: int | None
    """How many streams should be open at once; None is as many as are asked for."""

    def start_target(self) -> None:
        """Connect to it, or connect anew, see `PersistentShellEnvironment`."""

    def stop_target(self) -> None:
        """Disconnect, for good."""

    def login_command(self, command: Sequence[str] = ()) -> tuple[str, ...]:
        """Return what a person runs here to have a command run there on a terminal, see `Target.enter`."""

    def forwarded(self, host: str, port: int) -> Address:
        """Return a port here that leads to one that the machine can reach, until it is disconnected.

        Raises:
            TerminalError: There is none to be had.
        """


def host_of(settings: EnvironmentSettings, url: str | None = None) -> RemoteHost | None:
    """Return the machine that a backend has its engine on; None if that is this one. It is not reached for yet.

    Args:
        settings: May say so by `over`.
        url: Says so where they do not.

    Raises:
        SettingsError: It leads to no such machine.
        MissingExtraError: The client library of the backend that leads there is not installed.
    """
    env = host_over(settings) or (host_at(url) if url else None)
    return cast("RemoteHost | None", env)  # what `BackendSettings.carries` says of it


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a program."""

    exit_code: int
    output: str
    """Its standard output."""
    errors: str
    """Its standard error."""


def run_there(
    host: Starter, argv: Sequence[str], on_line: Callable[[str], object] | None = None, *, guarded: bool = True
) -> Done:
    """Run a program on a machine to its end, without input. Called in any thread but the loop's, such as a worker.

    When the start that the current thread is at is stopped, the program is ended with all that it has started.

    Args:
        host: Where to run it.
        argv: The program and its arguments, which other users there may see.
        on_line: Receives each line, of either output, as it comes. Called in this thread.
        guarded: Whether a second process there ends it early if the start is stopped; a short one needs none.

    Raises:
        EnvironmentStartError: It could not be started.
        EnvironmentLostError: The link dropped before its end was known.
        StartStoppedError: It was ended.
    """
    if guarded:
        argv = ["/bin/sh", "-c", _GUARDED, "sh", *argv]
    if on_line is None:
        return run(lambda call: _ran(call, host, argv))
    lines = {channel: _Lines(on_line) for channel in Channel}
    done = run(lambda call: _ran(call, host, argv), lambda channel, data: lines[channel].add(data))
    for each in lines.values():
        each.add(b"", final=True)
    return done


async def _ran(call: Call[Done], host: Starter, argv: Sequence[str]) -> Done:
    stream = await opened(host.open_stream, argv)
    program, start = _Program(stream, call.pieces), current_start()
    stream.start(program)
    try:
        with start.aborting(partial(current().soon, program.end)):
            await shielded(stream.ended)
            start.check()
            code = await stream.exit_code(_EXIT_LIMIT)
            if code is None:
                raise EnvironmentLostError(await answered(host.target_loss) or f"the link to {host.place} dropped")
    finally:
        await stream.close()
    result = Outcome(program.output, code).result()
    return Done(code, result.output, result.stderr or "")


class _Program(Discard):
    """What a program prints, see `Receiver`, and its end before its time."""

    def __init__(self, stream: Stream, pieces: Pieces | None) -> None:
        self._stream = stream
        self.output = Output(MOST_OUTPUT, separate=True, pieces=pieces)
        self.output.stream = stream
        self._giving_up: asyncio.TimerHandle | None = None

    def data_received(self, channel: Channel, data: bytes) -> None:
        """Keep what it prints, and offer it to the caller."""
        self.output.add(channel, data)

    def stream_ended(self) -> None:
        """Note that nothing more comes."""
        if self._giving_up:
            self._giving_up.cancel()

    def end(self) -> None:
        """Have it ended by the end of its input, and give its stream up where that does not help."""
        if self._giving_up is None and not self._stream.has_ended:
            with contextlib.suppress(BrokenPipeError):
                self._stream.close_write()
            self._giving_up = current().loop.call_later(_PATIENCE, lambda: spawn(self._stream.close()))


class _Lines:
    """Hands whole lines on."""

    def __init__(self, on_line: Callable[[str], object]) -> None:
        self._on_line = on_line
        self._decoder = LiveText()
        self._begun = ""

    def add(self, data: bytes, final: bool = False) -> None:
        *whole, self._begun = (self._begun + self._decoder.feed(data, final)).split("\n")
        for line in whole:
            self._on_line(line)
        if final and self._begun:
            self._on_line(self._begun)
        self._begun = self._begun[-MOST_OUTPUT:]
