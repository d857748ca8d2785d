"""What every environment is."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, get_args

from environments.approvals.gate import Gate
from environments.attachments import Attachments
from environments.call import Call, OutputCallback, StderrMode, StdinMode, check_seconds, checked_call
from environments.errors import DeniedError
from environments.owner import Orphan
from environments.passthrough import Passthrough
from environments.process import GRACE, Background, Process
from environments.progress import Reporter
from environments.result import Capabilities, CommandResult
from environments.secret_values import SecretValues
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sink import OutputSink
from environments.terminal import Terminal

if TYPE_CHECKING:
    from environments.model_view import ModelView


class BaseEnvironment(Gate, ABC):
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
        self.passthrough = Passthrough(settings.env_passthrough)
        """The variables of this process that are handed on to commands and scripts. More may be allowed at any time."""
        self._secrets = SecretValues(settings, self.passthrough)
        self.attachments = Attachments()
        """What the tools keep with this environment. `cleanup` closes it in the end."""
        self.progress = Reporter(settings.env)
        """Tells `create_environment`'s `on_progress` how far starts and transfers are."""
        self._last_used = time.monotonic()
        self._known_cwd: str | None = settings.cwd

    def model_view(self) -> ModelView:
        """Return what makes text of this environment fit for a model, as the settings say."""
        from environments.model_view import ModelView  # which commands have no need of
        from environments.redaction import Redactor

        secrets = self._secrets.known() if self.settings.redact_secrets else {}
        return ModelView(Redactor.of(secrets), self.settings.strip_ansi)

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment of this backend: of this class, unless the settings ask for another way to have it.

        `create_environment` calls it. Arguments and errors are those of the class itself.
        """
        return cls(settings)

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
        """Return a variable as the session's last command left it; empty if it is not set.

        It is one of `PWD`, `PATH`, `PYTHONPATH`, `PYTHONSAFEPATH`, `VIRTUAL_ENV` and `CONDA_PREFIX`. Of all but the
        first, what a script's tool calls make of them does not count: the next script's Python, modules and programs
        are no choice of theirs.
        """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do here. Starts the environment when it has not been started."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The session's working directory, as known from the last command that ended."""

    def execute(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        env: Mapping[str, str] | None = None,
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command in the session and wait for it.

        The session keeps its working directory, exports, functions, aliases and shell options from one command to
        the next. One command runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters.
            cwd: Directory to run this one command in; the session's own stays as it was. A relative one is taken from
                there, and `~` is the target user's home. Where it cannot be entered, nothing runs.
            timeout: Seconds until the command's whole process tree is ended; None takes `settings.timeout`,
                `math.inf` sets no limit. The start of the target is not counted, see `cancellation.start_limit`.
            stdin: What the command reads; without it, it sees end of file.
            stderr: `"merge"` into the output in the order written, or `"separate"`.
            env: Variables for this one command.
            on_output: Called in this thread with each piece of text as it arrives. What it raises ends the command,
                and is raised. It may not call `execute` of the same environment.

        Returns:
            The result, also for a command that failed, timed out or was interrupted. `cleanup()` interrupts a command
            that has begun.

        Raises:
            EnvironmentStartError: The target could not be started; a `StartStoppedError` if its start was stopped.
            EnvironmentLostError: The target went away while the command ran.
            TerminalError: The environment was cleaned up before the command began.
            DeniedError: A hook or a rule does not allow it, see docs/approvals.md.
            TypeError: An argument is of a wrong type.
            ValueError: The command holds a NUL character, the timeout is not above 0, or the like.
        """
        call = self._call(command, timeout, cwd=cwd, stdin=stdin, stderr=stderr, env=env, on_output=on_output)
        if not self.may_run(command, cwd or self._known_cwd, "session"):
            return CommandResult.never_ran(self._known_cwd or "")
        result = self.run_in_session(call)
        if cwd is None:
            self._known_cwd = result.cwd
        return result

    def execute_oneshot(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        env: Mapping[str, str] | None = None,
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, and change nothing in the session.

        It starts in the session's working directory with the target's own environment: what the session exported
        is not there. Arguments, result and errors are those of `execute`.
        """
        call = self._call(command, timeout, cwd=cwd, stdin=stdin, stderr=stderr, env=env, on_output=on_output)
        if not self.may_run(command, cwd or self._known_cwd, "oneshot"):
            return CommandResult.never_ran(self._known_cwd or "")
        return self.run_beside(call)

    def execute_own(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Do what `execute_oneshot` does, for a command of this package or of a hook itself: nobody is asked.

        Arguments, result and errors are those of `execute_oneshot`.
        """
        call = self._call(command, timeout, cwd=cwd, stdin=stdin, stderr="merge", env=None, on_output=on_output)
        return self.run_beside(replace(call, is_own=True))

    def _call(
        self,
        command: str,
        timeout: float | None,
        *,
        cwd: str | None,
        stdin: str | bytes | None,
        stderr: StderrMode,
        env: Mapping[str, str] | None,
        on_output: OutputCallback | None,
    ) -> Call:
        limit = self.settings.timeout if timeout is None else timeout
        self.touch()
        return checked_call(command, cwd=cwd, timeout=limit, stdin=stdin, stderr=stderr, env=env, on_output=on_output)

    def why_killed(self) -> str | None:
        """Say which limit of the target has ended a process since this was asked last, or None if none has.

        Asked when something ended with exit code 137. A backend that can tell overrides it.
        """
        return None

    @abstractmethod
    def run_in_session(self, call: Call) -> CommandResult:
        """Do what `execute` says."""

    @abstractmethod
    def run_beside(self, call: Call) -> CommandResult:
        """Do what `execute_oneshot` says."""

    def start(
        self,
        command: str,
        *,
        cwd: str | None = None,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        env: Mapping[str, str] | None = None,
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Start a command in the background and return a handle to it.

        It sees the target's own environment and not what the session exported. It ends with the environment.

        Args:
            command: Shell text, as for `execute`.
            cwd: Directory to run in, as for `execute`; None is the session's.
            pty: Whether to give it a terminal.
            rows: Height of that terminal in lines.
            columns: Width of that terminal in characters.
            stdin: `"open"` for an input that the handle writes to; `"none"` for one at its end; `"consumed"` for an
                open one of which the command is certain to read all that is written. The latter two leave the shell
                that ran the command for others, which saves time on a distant target.
            env: Variables for it.
            sink: Takes the output, in a thread of its own, in place of the handle's `read`.
            grace: Seconds between TERM and KILL when it is killed.

        Raises:
            UnsupportedError: The backend has no pty.
            EnvironmentStartError: The target could not be started.
            DeniedError: A hook or a rule does not allow it, or its caller was cancelled while approval was asked for.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be.
        """
        call, background = self._background_call(command, cwd, pty, rows, columns, stdin, env, sink, grace)
        if not self.may_run(command, cwd or self._known_cwd, "background"):
            raise DeniedError("its caller was cancelled while approval was asked for")
        return self.run_in_background(call, background)

    def start_own(
        self,
        command: str,
        *,
        cwd: str | None = None,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Do what `start` does, for a command of this package or of a hook itself: nobody is asked.

        Arguments, result and errors are those of `start`.
        """
        call, background = self._background_call(command, cwd, False, 24, 80, stdin, None, sink, grace)
        return self.run_in_background(replace(call, is_own=True), background)

    def _background_call(
        self,
        command: str,
        cwd: str | None,
        pty: bool,
        rows: int,
        columns: int,
        stdin: StdinMode,
        env: Mapping[str, str] | None,
        sink: OutputSink | None,
        grace: float,
    ) -> tuple[Call, Background]:
        self.touch()
        call = checked_call(command, cwd=cwd, env=env)
        if stdin not in get_args(StdinMode):
            raise ValueError(f"stdin is {stdin!r}; allowed: {', '.join(map(repr, get_args(StdinMode)))}")
        terminal = Terminal.checked(rows, columns) if pty else None
        return call, Background(stdin, terminal, sink, check_seconds("grace", grace))

    @abstractmethod
    def run_in_background(self, call: Call, background: Background) -> Process:
        """Do what `start` says."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the command `execute` is running, from any thread, or a target's start. Without one, does nothing.

        Whoever waits for the start gets a `StartStoppedError`.
        """

    @abstractmethod
    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file in the target, replacing it in one step.

        Missing parent directories are made. A relative path is taken from the session's working directory, which is
        not made; `~` is the target user's home. What is there already must be a regular file, or a link to one, that
        the target's user owns or may write to.

        Raises:
            TerminalError: The file could not be written, with the target's own reason.
        """

    @abstractmethod
    def read_bytes(self, path: str) -> bytes:
        """Return a regular file of the target, whole.

        Raises:
            FileNotFoundError: No such file.
            TerminalError: It could not be read, with the target's own reason.
        """

    @abstractmethod
    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file from here to the target, with its permissions. Paths and errors are as for `write_bytes`."""

    @abstractmethod
    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file from the target to here, with its permissions. Paths and errors are as for `read_bytes`."""

    @abstractmethod
    def put_dir(self, local: str | Path, remote: str | PurePosixPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from here to the target, as one stream.

        Files, directories and symbolic links are copied, with permissions and times in whole seconds; links are not
        followed. Sockets, pipes and devices are left out. What is there already and has no counterpart here stays; a
        link or a file that has one is replaced. The target needs `tar`.

        Args:
            local: The directory here.
            remote: The directory there, which is made; a path as for `write_bytes`. One that is there already keeps
                its own permissions and owner, as it may be a home.
            skip_unchanged: Whether to leave out regular files that have the same size and time there.

        Raises:
            NotADirectoryError: There is no such directory here.
            TerminalError: It could not be copied, or not all of it, with the target's own reason.
        """

    @abstractmethod
    def get_dir(self, remote: str | PurePosixPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from the target to here, as `put_dir` does the other way.

        A member that would be written outside of `local` is refused.

        Raises:
            FileNotFoundError: There is no such directory in the target.
            TerminalError: It could not be copied, or not all of it.
        """

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
