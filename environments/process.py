"""A command that runs in the background: its handle, and how it is asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from environments.call import StdinMode
from environments.sink import OutputSink
from environments.terminal import Terminal

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


@dataclass(frozen=True, slots=True)
class Background:
    """How a command runs in the background, see `BaseEnvironment.start`."""

    stdin: StdinMode = "open"
    terminal: Terminal | None = None
    sink: OutputSink | None = None
    grace: float = GRACE
