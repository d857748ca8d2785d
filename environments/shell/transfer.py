"""What moving files and moving directories have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from environments.call import Call
from environments.capture import BoundedCapture
from environments.errors import TerminalError
from environments.process import Background, Process
from environments.progress import Reporter
from environments.result import CommandResult
from environments.shell.dialect.files import NO_SUCH_FILE
from environments.sink import Channel, OutputSink

TIME_LIMIT = 60.0
"""Seconds for a command that moves what is small."""
LONGEST_REASON = 4096
"""Bytes of what a program says that are told."""


class Runner(Protocol):
    """What runs commands where the files are, each beside all others, see `Beside`."""

    def run(self, call: Call) -> CommandResult:
        """Run a command and return what came of it."""

    def start(self, call: Call, background: Background) -> Process:
        """Start a command."""

    def run_into(self, call: Call, sink: OutputSink) -> int:
        """Run a command, without a limit of time or of output, and return its exit code."""


class Transfer:
    """Moves things to and from a target, by way of its shells.

    Args:
        runner: Runs commands there.
        backend: The backend's name, for errors.
        progress: Is told of bytes as they are moved.
    """

    thing: ClassVar[str]
    """What it moves."""

    def __init__(self, runner: Runner, backend: str, progress: Reporter | None = None) -> None:
        self._runner = runner
        self._backend = backend
        self._progress = progress or Reporter(backend)

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        """Raise the error that a command's exit code and its words stand for, if any."""
        if exit_code == NO_SUCH_FILE:
            raise FileNotFoundError(2, f"no such {self.thing} on backend {self._backend!r}", path)
        if exit_code != 0:
            raise self._failure(verb, path, why.strip() or f"exit code {exit_code}")

    def _failure(self, verb: str, path: str, why: str) -> TerminalError:
        return TerminalError(f"cannot {verb} {path} on backend {self._backend!r}: {why}")


def call_at(path: str, command: str, *, separate: bool = False) -> Call:
    """Return the call of a command about a path; only for a relative one the session's directory matters."""
    return Call(command, None if not path.startswith(("/", "~")) else "/", TIME_LIMIT, separate=separate)


class BytesSink:
    """Hands on standard output as it comes, and keeps the words of standard error."""

    separate = True

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self.error = BoundedCapture(LONGEST_REASON)

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        if channel is Channel.STDOUT:
            self._take(data)
        else:
            self.error.add(data)

    def freeze(self) -> None:
        """Nothing is ended that is still wanted."""
