"""What every environment is, and every process that runs in its background."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import ClassVar, Literal, Self

from environments.owner import Orphan
from environments.result import Capabilities, CommandResult
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sink import OutputSink

StderrMode = Literal["merge", "separate"]
StdinMode = Literal["open", "none", "consumed"]
OutputCallback = Callable[[str], object]

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
    def kill(self) -> None:
        """End the command and all it started: TERM, a grace, KILL. Returns when nothing of it is left.

        Of a command that has ended, that is what it left in the background.
        """

    @abstractmethod
    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the command's terminal, in characters. Without a terminal, does nothing."""


class BaseEnvironment(ABC):
    """A place where commands run.

    An environment starts on first use and is thread-safe. `execute` runs one command at a time in the session;
    `execute_oneshot` runs beside it. Leave the `with` block, or call `cleanup`, and nothing stays behind.
    """

    backend: str = ""
    """The name the backend is registered under."""
    settings_class: ClassVar[type[BackendSettings]] = BackendSettings
    """The settings that this backend alone has."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        """Take the settings, and start nothing yet.

        Raises:
            SettingsError: A value cannot be understood, see `BackendSettings.check`.
            UnsupportedError: The backend cannot do what is asked for.
        """
        self.settings_class.of(settings).check(settings)
        self.settings = settings
        self._last_used = time.monotonic()

    def touch(self) -> None:
        """Note that the environment is in use, so that it does not count as idle."""
        self._last_used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long nothing has used the environment; 0 while a command runs in it."""
        return 0.0 if self.busy else time.monotonic() - self._last_used

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for what the backend needs here, such as an engine or credentials, and start nothing.

        Args:
            settings: Say where to look.

        Returns:
            What was found, as one line for people; nothing where nothing is needed.

        Raises:
            TerminalError: It is not there. The message says what to do about it.
        """
        return ""

    @classmethod
    def find_orphans(cls) -> Iterable[Orphan]:
        """Go through what processes of this machine that were killed have left in targets of this backend.

        A backend whose targets outlive a process that is killed extends this; `hermes-env gc` removes what it finds.
        Whose a thing is, and whether that process still runs, is told by an `Owner` written on it.

        Raises:
            TerminalError: The backend cannot be looked at, as its engine does not answer.
        """
        return ()

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a command or a background process runs."""

    @abstractmethod
    def session_variable(self, name: str) -> str:
        """Return `PWD`, `VIRTUAL_ENV` or `CONDA_PREFIX` as the session's last command left it; empty if not set."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do here. Starts the environment when it has not been started."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The session's working directory, as known from the last command that ended."""

    @abstractmethod
    def execute(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command in the session and wait for it.

        The session keeps its working directory, exports, functions, aliases and shell options from one command to
        the next. One command runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters.
            cwd: Directory to run this one command in; the session's own stays as it was.
            timeout: Seconds until the command's whole process tree is ended; None takes `settings.timeout`,
                `math.inf` sets no limit.
            stdin: What the command reads; without it, it sees end of file.
            stderr: `"merge"` into the output in the order written, or `"separate"`.
            on_output: Called in this thread with each piece of text as it arrives.

        Returns:
            The result, also for a command that failed, timed out or was interrupted.

        Raises:
            EnvironmentStartError: The target could not be started.
            EnvironmentLostError: The target went away while the command ran.
            ValueError: The command holds a NUL character, or the timeout is negative.
        """

    @abstractmethod
    def execute_oneshot(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, and change nothing in the session.

        It starts in the session's working directory with the target's own environment: what the session exported
        is not there. Arguments, result and errors are those of `execute`.
        """

    @abstractmethod
    def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Start a command in the background and return a handle to it.

        It sees the target's own environment and not what the session exported. It ends with the environment.

        Args:
            command: Shell text, as for `execute`.
            cwd: Directory to run in; None is the session's.
            pty: Whether to give it a terminal.
            rows: Height of that terminal in lines.
            columns: Width of that terminal in characters.
            stdin: `"open"` for an input that the handle writes to; `"none"` for one at its end; `"consumed"` for an
                open one of which the command is certain to read all that is written. The latter two leave the shell
                that ran the command for others, which saves time on a distant target.
            sink: Takes the output, in a thread of its own, in place of the handle's `read`.
            grace: Seconds between TERM and KILL when it is killed.

        Raises:
            UnsupportedError: The backend has no pty.
            EnvironmentStartError: The target could not be started.
        """

    @abstractmethod
    def interrupt(self) -> None:
        """End the command `execute` is running, from any thread. Without one, does nothing."""

    @abstractmethod
    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file in the target, replacing it in one step.

        Missing parent directories are made. A relative path is taken from the session's working directory, `~` is
        the target user's home.

        Raises:
            TerminalError: The file could not be written, with the target's own reason.
        """

    @abstractmethod
    def read_bytes(self, path: str) -> bytes:
        """Return a file of the target, whole.

        Raises:
            FileNotFoundError: No such file.
            TerminalError: It could not be read, with the target's own reason.
        """

    @abstractmethod
    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file from here to the target, with its mode. Paths and errors are as for `write_bytes`."""

    @abstractmethod
    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file from the target to here, with its mode. Paths and errors are as for `read_bytes`."""

    @abstractmethod
    def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use. It goes with the environment.

        Raises:
            TerminalError: It could not be made.
        """

    @abstractmethod
    def cleanup(self) -> None:
        """End everything this environment started, there and here. Safe to call twice; ends running commands."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()
