"""Background processes: the handle, its options, and the terminal size."""

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
"""The kernel's maximum for a terminal size."""


class Terminal(NamedTuple):
    """A terminal size in characters."""

    rows: int = 24
    columns: int = 80

    @classmethod
    def checked(cls, rows: object, columns: object) -> Self:
        """Validate a terminal size.

        Raises:
            TypeError: A number is not whole.
            ValueError: A number is not from 1 to 65,535.
        """
        for name, value in (("rows", rows), ("columns", columns)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} is of type {type(value).__name__}; give a whole number")
            if not 0 < value <= _MOST:
                raise ValueError(f"{name} is {value}; give a number from 1 to {_MOST}")
        assert isinstance(rows, int) and isinstance(columns, int)
        return cls(rows, columns)


GRACE = 1.0
"""Seconds between TERM and KILL for a command that timed out or was interrupted."""


class Process(ABC):
    """Handle of a background process. Thread-safe."""

    pid: int
    """Process id, in the target, of the shell that runs the command."""

    @property
    @abstractmethod
    def running(self) -> bool:
        """True until the command has ended."""

    @abstractmethod
    def read(self) -> str:
        """Return the output since the last `read` or `expect`, without waiting; empty if there is none.

        Unread output is limited to `settings.max_output_bytes`; beyond the limit the oldest output is dropped.
        """

    @abstractmethod
    def expect(self, wanted: str | re.Pattern[str], timeout: float | None = None) -> str:
        """Wait for expected output, and return the output up to and including the match.

        The search begins at the end of the last `read` or `expect`. Standard output and standard error are one text, in
        the order written. A terminal ends lines with CR LF and echoes its input: expect `"done\\r\\n"` there, or a
        pattern with `\\r?\\n`.

        Args:
            wanted: Text, or a compiled pattern. The output so far is searched, so that `$` or a longest match may match
                before more output arrives.
            timeout: Maximum seconds to wait; 0 searches once, None waits until the command ends.

        Returns:
            The output up to the end of the match.

        Raises:
            ProcessTimeoutError: No match in time; a TimeoutError. The output stays unread.
            ProcessEndedError: The command ended without a match; an EOFError. The output stays unread.
            EnvironmentLostError: The target was lost before the command's end.
            CallCancelledError: The scope of the current thread was cancelled.
            UnsupportedError: The output goes to the caller's own `sink`.
            TypeError: An argument has the wrong type, such as a pattern of bytes.
            ValueError: The text is empty, or the timeout is below 0.
        """

    @abstractmethod
    def write(self, data: str | bytes) -> None:
        """Write to the command's stdin, or type on its terminal.

        Args:
            data: Text, sent as UTF-8, or bytes.

        Raises:
            BrokenPipeError: The command has ended or closed stdin.
        """

    @abstractmethod
    def close_stdin(self) -> None:
        """Send end of file; on a terminal, type control-D."""

    @abstractmethod
    def poll(self) -> int | None:
        """Return the exit code (128 + N after signal N), or None while the command runs.

        Raises:
            EnvironmentLostError: The target was lost before the command's end.
        """

    @abstractmethod
    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the command's end and return its exit code.

        Args:
            timeout: Maximum seconds to wait; None waits without limit.

        Returns:
            The exit code as from `poll`; None after the time-out.

        Raises:
            EnvironmentLostError: The target was lost before the command's end.
        """

    @abstractmethod
    def add_done_callback(self, callback: Callable[[int | None], object]) -> None:
        """Call a function once after the command's end, or at once if the command has ended.

        Args:
            callback: Receives the exit code, None if the target was lost. Called after the last output, in the thread
                that reads the output; must return soon. Its exceptions are logged.
        """

    @abstractmethod
    def kill(self) -> None:
        """End the command and all its processes: TERM, grace period, KILL. Returns once all have ended.

        After the command's end, this kills its remaining background processes.
        """

    @abstractmethod
    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the command's terminal, in characters. Without a terminal, does nothing."""

    def observed_by(self, operation: Operation, output: OutputCopy | None) -> Self:
        """End an operation together with this process, and return the process.

        Args:
            operation: The operation.
            output: The copy of the output; None for an operation without observers.
        """
        if output:
            operation.mark_sent()
            operation.keep_open()
            self.add_done_callback(lambda code: operation.end(**output.facts(), **_ending(code)))
        return self


class Background(NamedTuple):
    """Options of a background process, see `BaseEnvironment.start`."""

    stdin: StdinMode = "open"
    terminal: Terminal | None = None
    sink: OutputSink | None = None
    grace: float = GRACE
    output_copy: OutputCopy | None = None
    """Receives a copy of the output, for observers."""
    first_input: bytes = b""
    """First input of a command with consumed stdin, sent along with the command to save a round trip."""

    def copied(self, operation: Operation) -> Background:
        """Return options with a copy of the output, if the operation has observers."""
        if operation is UNOBSERVED:
            return self
        from environments.observation.record import OutputCopy  # rarely needed

        return self._replace(output_copy=OutputCopy())


def checked_start(command: CommandText, **options: Unpack[StartOptions]) -> tuple[CheckedCommand, Background]:
    """Validate the command and options of a background process.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
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
