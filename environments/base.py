"""What every environment is: the abstract class, its results, what it can do, and how it fails."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    from environments.output import OutputSink
    from environments.process import Process
    from environments.settings import EnvironmentSettings

StderrMode = Literal["merge", "separate"]
StdinMode = Literal["open", "none", "consumed"]
OutputCallback = Callable[[str], object]

TIMEOUT_EXIT_CODE = 124
"""What `timeout(1)` returns for a command that ran out of time."""
INTERRUPT_EXIT_CODE = 130
"""128 + SIGINT, what a shell returns for a command ended from the keyboard."""
GRACE = 1.0
"""Seconds a command has between TERM and KILL when it timed out or was interrupted."""


class TerminalError(Exception):
    """The root of every error this package raises."""


class EnvironmentStartError(TerminalError):
    """The target could not be started or reached."""


class EnvironmentLostError(TerminalError):
    """The target went away while it was in use: container removed, link dropped, parent killed.

    `output` holds what the command had printed by then. Whether the command had finished cannot be known,
    so it is never sent again.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class UnsupportedError(TerminalError):
    """The backend cannot do what was asked, and refuses it instead of doing less."""


class SettingsError(TerminalError):
    """A setting is unknown or has a value that is not allowed. The message names source, key and remedy."""


class MissingExtraError(TerminalError):
    """The backend's client library is not installed. The message names the pip extra that brings it."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What came of one command."""

    output: str
    """Standard output, with standard error merged in where it was written, unless captured apart."""
    exit_code: int
    """The command's own exit code; 124 when it timed out and 130 when it was interrupted."""
    stderr: str | None = None
    """Standard error when it was asked for apart (`stderr="separate"`), else None."""
    timed_out: bool = False
    """Whether the command was ended because its time was up. A command may also exit 124 by itself."""
    interrupted: bool = False
    """Whether the command was ended by `interrupt()`. A command may also exit 130 by itself."""
    cwd: str = ""
    """The working directory when the command ended."""
    duration_seconds: float = 0.0
    """Wall-clock time from sending the command to having its result."""
    omitted_bytes: int = 0
    """How many bytes of output (and of stderr) were left out of the middle because of the cap."""
    omitted_at: int = 0
    """Where in `output` the left-out bytes were: an index between the kept head and the kept tail."""

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with exit code 0."""
        return self.exit_code == 0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend, as it was found when it started, can do."""

    persistent_session: bool = True
    """Whether one shell runs all commands of the session, see `EnvironmentSettings.persistent_shell`."""
    pty: bool = True
    """Whether `start(pty=True)` is possible."""
    duplex: bool = True
    """Whether a process that `start` started can be written to while it runs."""
    same_machine: bool = False
    """Whether the target shares this machine's files, sockets and processes."""
    shell: str = "bash"
    """`bash`, or `sh` for any other POSIX shell."""
    enforced_limits: frozenset[str] = field(default_factory=frozenset)
    """Names of the resource settings this backend enforces, such as `container_memory`."""


class BaseEnvironment(ABC):
    """A place where commands run.

    An environment starts on first use and is thread-safe. `execute` runs one command at a time in the session;
    `execute_oneshot` runs beside it. Leave the `with` block, or call `cleanup`, and nothing stays behind.
    """

    backend: str = ""
    """The name the backend is registered under."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        self.settings = settings
        self._last_used = time.monotonic()

    def touch(self) -> None:
        """Note that the environment is in use, so that it does not count as idle."""
        self._last_used = time.monotonic()

    @property
    def idle_seconds(self) -> float:
        """How long nothing has used the environment; 0 while a command runs in it."""
        return 0.0 if self.busy else time.monotonic() - self._last_used

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
