"""Remote hosts: another machine with a backend's engine, reached by an environment such as SSH.

Any environment with shells implements this interface, without opening a shell.
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
from environments.loop import Call, OutputQueue, current, run, shielded, spawn
from environments.output import Channel, LiveText
from environments.settings import EnvironmentSettings
from environments.shell.lifecycle import call_backend
from environments.shell.output import Outcome, Output
from environments.shell.pool import opened
from environments.shell.stream import Discard, Stream, Terminal
from environments.starting import current_start

if TYPE_CHECKING:
    from environments.target import Address

MOST_OUTPUT = 1_000_000
"""Output bytes kept of an internal program."""
GRACE = 0.5
"""Seconds between TERM and KILL for such a program."""
_PATIENCE = 2.0
"""Seconds until the stream of an ended program is given up."""
_EXIT_LIMIT = 5.0
"""Seconds for its exit code, after its output has ended."""

# The program has a process session of its own, and is ended at the end of input, or of the link.
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
        """The machine's name, for messages and for telling machines apart."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process there, see `PersistentShellEnvironment`. Called in a worker thread."""

    def target_loss(self) -> str | None:
        """Return why the machine cannot be reached any more, see `PersistentShellEnvironment`."""


class RemoteHost(Starter, Protocol):
    """Another machine for processes."""

    max_streams: int | None
    """The count of streams that should be open at once; None is unlimited."""

    def start_target(self) -> None:
        """Connect or reconnect, see `PersistentShellEnvironment`."""

    def stop_target(self) -> None:
        """Disconnect for good."""

    def login_command(self, command: Sequence[str] = ()) -> tuple[str, ...]:
        """Return a local command for a person to run a command there on a terminal, see `Target.enter`."""

    def forwarded(self, host: str, port: int) -> Address:
        """Return a local port forwarded to a port reachable from the machine, until the disconnect.

        Raises:
            TerminalError: The port cannot be forwarded.
        """


def host_of(settings: EnvironmentSettings, url: str | None = None) -> RemoteHost | None:
    """Return the machine of a backend's engine; None for this machine. No connection is made yet.

    Args:
        settings: Name the machine by `over`.
        url: Names the machine if the settings do not.

    Raises:
        SettingsError: The settings or the URL name no such machine.
        MissingExtraError: The client library of the connecting backend is not installed.
    """
    env = host_over(settings) or (host_at(url) if url else None)
    return cast("RemoteHost | None", env)  # guaranteed by `BackendSettings.carries`


@dataclass(frozen=True, slots=True)
class HostProgramResult:
    """The result of a program."""

    exit_code: int
    output: str
    """The standard output."""
    errors: str
    """The standard error."""


def run_there(
    host: Starter, argv: Sequence[str], on_line: Callable[[str], object] | None = None, *, guarded: bool = True
) -> HostProgramResult:
    """Run a program on a machine to its end, without input. Called in a worker, or any thread but the loop's.

    A stop of the current thread's start ends the program with all its processes.

    Args:
        host: The machine.
        argv: The program and its arguments, visible to other users there.
        on_line: Called in this thread with each line of either output.
        guarded: True to start a second process there that ends the program early if the start is stopped. A short
            program needs no guard.

    Raises:
        EnvironmentStartError: The program could not be started.
        EnvironmentLostError: The link dropped before its end.
        StartStoppedError: The program was ended.
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


async def _ran(call: Call[HostProgramResult], host: Starter, argv: Sequence[str]) -> HostProgramResult:
    stream = await opened(host.open_stream, argv)
    program, start = _Program(stream, call.pieces), current_start()
    stream.start(program)
    try:
        with start.aborting(partial(current().soon, program.end)):
            await shielded(stream.ended)
            start.check()
            code = await stream.exit_code(_EXIT_LIMIT)
            if code is None:
                raise EnvironmentLostError(await call_backend(host.target_loss) or f"the link to {host.place} dropped")
    finally:
        await stream.close()
    result = Outcome(program.output, code).result()
    return HostProgramResult(code, result.output, result.stderr or "")


class _Program(Discard):
    """The output of a program, see `Receiver`, and its early end."""

    def __init__(self, stream: Stream, pieces: OutputQueue | None) -> None:
        self._stream = stream
        self.output = Output(MOST_OUTPUT, separate=True, pieces=pieces)
        self.output.stream = stream
        self._giving_up: asyncio.TimerHandle | None = None

    def data_received(self, channel: Channel, data: bytes) -> None:
        self.output.add(channel, data)

    def stream_ended(self) -> None:
        if self._giving_up:
            self._giving_up.cancel()

    def end(self) -> None:
        """End the program by the end of its input, and give up its stream if this fails."""
        if self._giving_up is None and not self._stream.has_ended:
            with contextlib.suppress(BrokenPipeError):
                self._stream.close_write()
            self._giving_up = current().loop.call_later(_PATIENCE, lambda: spawn(self._stream.close()))


class _Lines:
    """Splits output into lines."""

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
