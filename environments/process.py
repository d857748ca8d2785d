"""A command that runs in the background: its handle, and the size of its terminal."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack, get_args

from environments.observation.events import UNOBSERVED, Operation
from environments.options import (
    CheckedCommand,
    CommandText,
    SharedOptions,
    StartOptions,
    StdinMode,
    check_names,
    check_seconds,
    checked,
)
from environments.output import OutputSink

if TYPE_CHECKING:
    from environments.observation.record import OutputCopy

_MOST = 65535
"""What the kernel has room for."""


class Terminal(NamedTuple):
    """A size, in characters."""

    rows: int = 24
    columns: int = 80

    @classmethod
    def checked(cls, rows: object, columns: object) -> Self:
        """Return a size.

        Raises:
            TypeError: One of the numbers is not whole.
            ValueError: One of them is not from 1 to 65,535.
        """
        for name, value in (("rows", rows), ("columns", columns)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} is of type {type(value).__name__}; give a whole number")
            if not 0 < value <= _MOST:
                raise ValueError(f"{name} is {value}; give a number from 1 to {_MOST}")
        assert isinstance(rows, int) and isinstance(columns, int)
        return cls(rows, columns)


GRACE = 1.0
"""Seconds a command has between TERM and KILL when it timed out or was interrupted."""


class Process(ABC):
    """A command that runs in the background. Safe to use from several threads."""

    pid: int
    """The process id, in the target, of the shell that runs the command."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether the command has not ended."""

    @abstractmethod
    def read(self) -> str:
        """Return what the command has printed since the last `read`, at once; empty if there is nothing new.

        At most `settings.max_output_bytes` wait to be read; beyond that the oldest are dropped.
        """

    @abstractmethod
    def expect(self, wanted: str | re.Pattern[str], timeout: float | None = None) -> str:
        """Wait until the command has printed something, and return what it has printed up to and with that.

        It counts from where the last `read` or `expect` ended, and the next one goes on behind it. Standard output and
        standard error are one text, in the order written. A terminal ends lines with CR LF, and shows what is typed on
        it: expect `"done\\r\\n"` there, or a pattern with `\\r?\\n`.

        Args:
            wanted: Text, or a compiled pattern. It is searched for in what has come so far, so that a `$`, or what may
                be longer, matches as soon as there is nothing more yet.
            timeout: Seconds to wait at most; 0 just looks, None waits for as long as the command runs.

        Raises:
            ProcessTimeoutError: It did not come in time; a TimeoutError. All that was printed is still to be read.
            ProcessEndedError: The command ended without it; an EOFError. The same holds.
            EnvironmentLostError: The target went away before the command's end.
            CallCancelledError: The scope of the current thread was cancelled.
            UnsupportedError: The command was started with a `sink` of the caller's own, which has its output.
            TypeError: An argument is of a wrong type, such as a pattern of bytes.
            ValueError: The text is empty, or the timeout is below 0.
        """

    @abstractmethod
    def write(self, data: str | bytes) -> None:
        """Send text or bytes to the command's standard input, or type them on its terminal.

        Raises:
            BrokenPipeError: The command has ended or closed its input.
        """

    @abstractmethod
    def close_stdin(self) -> None:
        """Let the command see end of file; on a terminal, type control-D."""

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit code (128 + N after signal N), or None while the command runs.

        Raises:
            EnvironmentLostError: The target went away before the command's end.
        """

    @abstractmethod
    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the command's end and return its exit code, or None when `timeout` seconds did not bring it.

        Raises:
            EnvironmentLostError: The target went away before the command's end.
        """

    @abstractmethod
    def add_done_callback(self, callback: Callable[[int | None], object]) -> None:
        """Have a function called once when the command has ended, or at once if it has.

        Args:
            callback: Takes the exit code, None where the target went away. It is called in the thread that reads the
                output, all of which has come by then, and must return soon. What it raises is logged.
        """

    @abstractmethod
    def kill(self) -> None:
        """End the command and all it started: TERM, a grace, KILL. Returns when nothing of it is left.

        Of a command that has ended, that is what it left in the background.
        """

    @abstractmethod
    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the command's terminal, in characters. Without a terminal, does nothing."""

    def observed_by(self, operation: Operation, output: OutputCopy | None) -> Self:
        """Have an operation end with it, and return it.

        Args:
            operation: The operation.
            output: The copy of its output; None if it has no observers.
        """
        if output:
            operation.mark_sent()
            operation.keep_open()
            self.add_done_callback(lambda code: operation.end(**output.facts(), **_ending(code)))
        return self


class Background(NamedTuple):
    """How a command runs in the background, see `BaseEnvironment.start`."""

    stdin: StdinMode = "open"
    terminal: Terminal | None = None
    sink: OutputSink | None = None
    grace: float = GRACE
    output_copy: OutputCopy | None = None
    """Receives a copy of the output, for observers."""
    first_input: bytes = b""
    """What it reads first, where its input is consumed: sent along with the command, without waiting for its start."""

    def copied(self, operation: Operation) -> Background:
        """Return the same with a copy of the output, if the operation has observers."""
        if operation is UNOBSERVED:
            return self
        from environments.observation.record import OutputCopy  # which most programs have no need of

        return self._replace(output_copy=OutputCopy())


def checked_start(command: CommandText, **options: Unpack[StartOptions]) -> tuple[CheckedCommand, Background]:
    """Check a command that is to be started in the background, and its options.

    Raises:
        TypeError: A value is of a wrong type.
        ValueError: A value cannot be.
    """
    check_names(options, StartOptions.__annotations__, "start")
    shared: dict[str, Any] = {name: value for name, value in options.items() if name in SharedOptions.__annotations__}
    stdin = options.get("stdin", "open")
    if stdin not in get_args(StdinMode):
        raise ValueError(f"stdin is {stdin!r}; allowed: {', '.join(map(repr, get_args(StdinMode)))}")
    terminal = Terminal.checked(options.get("rows", 24), options.get("columns", 80)) if options.get("pty") else None
    grace = check_seconds("grace", options.get("grace", GRACE))
    return checked(command, **shared), Background(stdin, terminal, options.get("sink"), grace)


def _ending(code: int | None) -> dict[str, object]:
    if code is None:
        return {"status": "lost"}
    return {"status": "success" if code == 0 else "error", "exit_code": code}
