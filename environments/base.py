"""What every environment is."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, Unpack

from environments.approvals.gate import Gate
from environments.attachments import Attachments
from environments.call import Call, CallArguments, Command, StderrMode, StdinMode, checked_call
from environments.cancellation import cancellable, start_limit
from environments.errors import CallCancelledError
from environments.listener import OutputCallback
from environments.owner import Orphan
from environments.passthrough import Passthrough
from environments.process import GRACE, Background, Process
from environments.progress import Reporter
from environments.result import Capabilities, CommandResult
from environments.secret_values import SecretValues
from environments.session import Sessions
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sink import OutputSink
from environments.target_files import TargetFiles
from environments.terminal import Terminal
from environments.whereabouts import Whereabouts

if TYPE_CHECKING:
    from environments.approvals.decision import Way
    from environments.model_view import ModelView


class BaseEnvironment(Gate, TargetFiles, Whereabouts, Sessions, ABC):
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
        super().__init__()
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
        command: Command,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        binary: bool = False,
        max_output_bytes: int | None = None,
        on_output: OutputCallback | None = None,
        interrupt: threading.Event | None = None,
    ) -> CommandResult:
        """Run a command in the session and wait for it.

        The session keeps its working directory, exports, functions, aliases and shell options from one command to
        the next. One command runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters; or a program and its arguments, which no shell
                takes apart.
            cwd: Directory to run this one command in; the session's own stays as it was. A relative one is taken from
                there, and `~` is the target user's home. Where it cannot be entered, nothing runs.
            timeout: Seconds until the command's whole process tree is ended; None takes `settings.timeout`,
                `math.inf` sets no limit. The start of the target is not counted, see `cancellation.start_limit`.
            stdin: What the command reads; without it, it sees end of file.
            stderr: `"merge"` into the output in the order written, or `"separate"`.
            env: Variables for this one command.
            user: The user of the target to run as, by name or number. The command then begins with the session's
                directory and exports, and changes nothing of the session.
            binary: Whether the output is wanted as bytes, too: `output_bytes` of the result, and what `on_output` gets.
            max_output_bytes: Bytes of output to keep of it; None takes `settings.max_output_bytes`.
            on_output: Called in this thread with each piece of output as it arrives; one that needs a second argument,
                or has one of the name `channel`, is told `"stdout"` or `"stderr"`, too. What it raises ends the
                command, and is raised. It may not call `execute` of the same environment.
            interrupt: Ends the command when it is set, as `interrupt()` does.

        Returns:
            The result, also for a command that failed, timed out or was interrupted. `cleanup()` interrupts a command
            that has begun.

        Raises:
            EnvironmentStartError: The target could not be started; a `StartStoppedError` if its start was stopped.
            EnvironmentLostError: The target went away while the command ran.
            TerminalError: The environment was cleaned up before the command began.
            DeniedError: A hook or a rule does not allow it, see docs/approvals.md.
            UnsupportedError: The target cannot run a command as that user.
            TypeError: An argument is of a wrong type.
            ValueError: The command holds a NUL character, the timeout is not above 0, or the like.
        """
        call = self._call(
            command,
            timeout,
            cwd=cwd,
            stdin=stdin,
            stderr=stderr,
            env=env,
            user=user,
            binary=binary,
            max_output_bytes=max_output_bytes,
            on_output=on_output,
            interrupt=interrupt,
        )
        if not self._may_call(call, "session"):
            return CommandResult.never_ran(self._known_cwd or "")
        with _starts_end_with(call):
            result = self.run_in_session(call)
        if cwd is None and user is None:
            self._known_cwd = result.cwd
        return result

    def execute_oneshot(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        session_env: bool = False,
        binary: bool = False,
        max_output_bytes: int | None = None,
        on_output: OutputCallback | None = None,
        interrupt: threading.Event | None = None,
    ) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, and change nothing in the session.

        It starts in the session's working directory with the target's own environment: what the session exported
        is not there, unless `session_env` asks for it. It is then as the session's last command left it. All other
        arguments, the result and errors are those of `execute`.
        """
        call = self._call(
            command,
            timeout,
            cwd=cwd,
            stdin=stdin,
            stderr=stderr,
            env=env,
            user=user,
            session_env=session_env,
            binary=binary,
            max_output_bytes=max_output_bytes,
            on_output=on_output,
            interrupt=interrupt,
        )
        if not self._may_call(call, "oneshot"):
            return CommandResult.never_ran(self._known_cwd or "")
        with _starts_end_with(call):
            return self.run_beside(call)

    def execute_own(
        self,
        command: str,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        session_env: bool = False,
        on_output: OutputCallback | None = None,
    ) -> CommandResult:
        """Do what `execute_oneshot` does, for a command of this package or of a hook itself: nobody is asked.

        Arguments, result and errors are those of `execute_oneshot`.
        """
        call = self._call(command, timeout, cwd=cwd, stdin=stdin, session_env=session_env, on_output=on_output)
        return self.run_beside(replace(call, is_own=True))

    def _call(self, command: Command, limit: float | None, **arguments: Unpack[CallArguments]) -> Call:
        self.touch()
        return checked_call(command, self.settings.timeout if limit is None else limit, **arguments)

    def _may_call(self, call: Call, way: Way) -> bool:
        """Ask about a command that was asked for. Returns False if nobody waits for it any more."""
        place = call.cwd or self._known_cwd
        return not call.is_cancelled and self.may_run(call.judged, place, way, call.user, lambda: call.is_cancelled)

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

    @cancellable
    def start(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        session_env: bool = False,
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Start a command in the background and return a handle to it.

        It sees the target's own environment and, without `session_env`, not what the session exported. It ends with
        the environment.

        Args:
            command: Shell text or a program and its arguments, as for `execute`.
            cwd: Directory to run in, as for `execute`; None is the session's.
            pty: Whether to give it a terminal.
            rows: Height of that terminal in lines.
            columns: Width of that terminal in characters.
            stdin: `"open"` for an input that the handle writes to; `"none"` for one at its end; `"consumed"` for an
                open one of which the command is certain to read all that is written. The latter two leave the shell
                that ran the command for others, which saves time on a distant target.
            env: Variables for it.
            user: The user to run as, as for `execute`.
            session_env: Whether it gets what the session has exported, as for `execute_oneshot`.
            sink: Takes the output, in a thread of its own, in place of the handle's `read`.
            grace: Seconds between TERM and KILL when it is killed.

        Raises:
            UnsupportedError: The backend has no pty, or cannot run a command as that user.
            EnvironmentStartError: The target could not be started.
            DeniedError: A hook or a rule does not allow it.
            CallCancelledError: The scope of its caller was cancelled.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be.
        """
        call = self._call(command, math.inf, cwd=cwd, env=env, user=user, session_env=session_env)
        background = Background.checked(stdin, Terminal.checked(rows, columns) if pty else None, sink, grace)
        if not self._may_call(call, "background"):
            raise CallCancelledError("the scope was cancelled, so that the command was not started")
        process = self.run_in_background(call, background)
        if call.is_cancelled:
            process.kill()
            raise CallCancelledError("the scope was cancelled while the command was started, and it was ended")
        return process

    def start_own(
        self,
        command: str,
        *,
        cwd: str | None = None,
        stdin: StdinMode = "open",
        session_env: bool = False,
        sink: OutputSink | None = None,
        grace: float = GRACE,
    ) -> Process:
        """Do what `start` does, for a command of this package or of a hook itself: nobody is asked.

        Arguments, result and errors are those of `start`.
        """
        call = self._call(command, math.inf, cwd=cwd, session_env=session_env)
        return self.run_in_background(replace(call, is_own=True), Background.checked(stdin, None, sink, grace))

    @abstractmethod
    def run_in_background(self, call: Call, background: Background) -> Process:
        """Do what `start` says."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the command `execute` is running, from any thread, or a target's start. Without one, does nothing.

        Whoever waits for the start gets a `StartStoppedError`.
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


def _starts_end_with(call: Call) -> AbstractContextManager[object]:
    """Return what has the start of a target, if a call has to wait for one, end when the call is interrupted."""
    return start_limit(math.inf, interrupted=call.interrupt.is_set) if call.interrupt else contextlib.nullcontext()
