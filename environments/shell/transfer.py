"""What moving files and moving directories have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from environments.cancellation import check_scope, ended_in_scope
from environments.capture import BoundedCapture
from environments.errors import TerminalError, target_error
from environments.options import Command
from environments.progress import Reporter
from environments.result import CommandResult
from environments.shell.dialect.file_causes import error_number
from environments.shell.dialect.files import explaining
from environments.sink import Channel, OutputSink

if TYPE_CHECKING:
    from environments.process import Background
    from environments.shell.process import ShellProcess

TIME_LIMIT = 60.0
"""Seconds for a command that moves what is small."""
LONGEST_REASON = 4096
"""Bytes of what a program says that are told."""


class Runner(Protocol):
    """What runs commands where the files are, each beside all others."""

    def run(self, command: Command) -> CommandResult:
        """Run a command and return its result."""

    def start(self, command: Command, background: Background) -> ShellProcess:
        """Start a command."""

    def run_into(self, command: Command, sink: OutputSink) -> int:
        """Run a command, without a limit of time or of output, and return its exit code.

        Args:
            command: The command.
            sink: Takes the output, in the caller's thread.
        """


class Transfer:
    """Moves things to and from a target, by way of its shells.

    Args:
        runner: Runs commands there.
        backend: The backend's name, for errors.
        progress: Is told of bytes as they are moved.
    """

    def __init__(self, runner: Runner, backend: str, progress: Reporter | None = None) -> None:
        self._runner = runner
        self._backend = backend
        self._progress = progress or Reporter(backend)

    @contextmanager
    def _started(self, call: Command, background: Background) -> Iterator[ShellProcess]:
        """Start a command for the time of the block. It ends when the scope of the transfer is cancelled."""
        process = self._runner.start(call, background)
        try:
            with ended_in_scope(process.begin_ending):
                yield process
        finally:
            process.kill()

    def _sent(self, path: str, purpose: str, process: ShellProcess) -> int:
        """Return the exit code of a command that was sent something, when it has ended.

        It may end while it is sent more, and a stream that breaks can take the code along; so it is then asked again
        what is in the way.
        """
        code = process.wait() or 0
        if code and not error_number(code):
            return self._runner.run(call_at(path, explaining(path, purpose))).exit_code or code
        return code

    def _raise_for(self, verb: str, path: str, exit_code: int, why: str) -> None:
        """Raise the error that a command's exit code and its words stand for, if any."""
        if exit_code != 0:
            check_scope()
            said, number = why.strip(), error_number(exit_code)
            raise target_error(number, verb, path, self._backend, said if said or number else f"exit code {exit_code}")

    def _failure(self, verb: str, path: str, why: str) -> TerminalError:
        return target_error(0, verb, path, self._backend, why)


def call_at(path: str, command: str, *, separate: bool = False) -> Command:
    """Return the call of a command about a path; only for a relative one the session's directory matters."""
    return Command(command, None if not path.startswith(("/", "~")) else "/", TIME_LIMIT, separate=separate)


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
