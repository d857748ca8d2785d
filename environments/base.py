"""What every environment is."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar, Unpack

from environments.approvals.gate import Gate
from environments.cancellation import cancellable, start_limit
from environments.errors import CallCancelledError, UnsupportedError
from environments.files import TargetFiles
from environments.observation.watched import Watched, came_of
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StdinMode, checked
from environments.output import OutputSink
from environments.owner import Orphan
from environments.process import GRACE, Background, Process, Terminal
from environments.result import Capabilities, CommandResult
from environments.secrets import Redactor, SecretValues, secret_among
from environments.session import Sessions
from environments.settings import BackendSettings, EnvironmentSettings
from environments.starting import Reporter
from environments.target import Whereabouts
from environments.variables import Passthrough

if TYPE_CHECKING:
    from environments.approvals.decision import Way
    from environments.found_target import FoundTarget
    from environments.model_view import ModelView


class Attachment(Protocol):
    """Something that is kept with one environment."""

    def close(self) -> None:
        """Give up what is kept. The environment has been cleaned up. Called once."""


_Kept = TypeVar("_Kept", bound=Attachment)


class Attachments:
    """Those of one environment, one of each kind. They refer to each other as they like: nothing else holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[object, Attachment] = {}
        self._closed = False

    def get(self, kind: Callable[[], _Kept]) -> _Kept:
        """Return the one of a kind, made when it is first asked for; one that is closed already after `close`."""
        with self._lock:
            found = self._of_kind.get(kind)
            if found is None:
                found = kind()
                if self._closed:
                    found.close()
                else:
                    self._of_kind[kind] = found
            return found  # type: ignore[return-value]  # one kind has attachments of its own type

    def close(self) -> None:
        """Close all of them, and keep none from now on."""
        self._closed = True
        self.renew()

    def renew(self) -> None:
        """Close all of them, so that each is made anew when it is asked for."""
        with self._lock:
            kept, self._of_kind = list(self._of_kind.values()), {}
        for each in kept:
            each.close()


class Readiness(ABC):
    """The part of every environment by which it is started ahead."""

    settings: EnvironmentSettings
    starts_at_once: ClassVar[int | None] = 16
    """How many targets should be started at the same time in one place, see `start_place`; None is no limit."""
    starts_per_second: ClassVar[float | None] = None
    """How many starts may begin in a second in one place; None is no limit."""

    look_interval: ClassVar[float] = 2.0
    """Seconds between looks whether one that waits to be used `is_ready` still."""

    @classmethod
    def start_place(cls, settings: EnvironmentSettings) -> str:
        """Name what a limit of starts is a limit of, such as an engine's address; the backend as a whole, by default.

        Args:
            settings: Lead there.

        Raises:
            SettingsError: They cannot be understood.
        """
        return repr(settings.own_over) if settings.over else ""

    @abstractmethod
    def session_variable(self, name: str) -> str:
        """Return a variable as the session's last command left it."""

    def prepare(self) -> None:
        """Start the target unless it is up, and open the session, so that the first command finds all ready.

        Raises:
            EnvironmentStartError: The target could not be started, or the session not be opened.
            TerminalError: The environment was cleaned up.
        """
        self.session_variable("PWD")

    @property
    def is_ready(self) -> bool:
        """Whether what `prepare` has made is still there. The target is asked only where that is not told otherwise."""
        return True

    def renew(self) -> None:
        """End all that was started in the environment, and have its next command begin a new session.

        The target stays as it is, with its files. Nobody may use the environment meanwhile.

        Raises:
            UnsupportedError: The backend cannot do it.
            TerminalError: Something could not be ended, or the target is lost.
        """
        raise UnsupportedError(f"backend {self.settings.env!r} cannot have a new session in the same target")


class Execution(Gate, ABC):
    """The part of every environment that runs commands and waits for them."""

    observation: Watched
    """Who looks on, and what they are told."""
    _known_cwd: str | None

    @abstractmethod
    def touch(self) -> None:
        """Note that the environment is in use, so that it does not count as idle."""

    def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it.

        The session keeps its working directory, exports, functions, aliases and shell options from one command to
        the next. One command runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters; or a program and its arguments, which no shell
                takes apart.
            options: See `CommandOptions`.

        Returns:
            The result, also for a command that failed, timed out or was interrupted. `cleanup()` interrupts a command
            that has begun.

        Raises:
            EnvironmentStartError: The target could not be started; a `StartStoppedError` if its start was stopped.
            EnvironmentLostError: The target went away while the command ran.
            TerminalError: The environment was cleaned up before the command began.
            DeniedError: A hook or a rule does not allow it, see docs/approvals.md.
            UnsupportedError: A `user` was given.
            TypeError: An argument is of a wrong type.
            ValueError: The command holds a NUL character, the timeout is not above 0, or the like.
        """
        call = self._session_call(command, **options)
        with self.observation.command(call, "session") as seen:
            return came_of(seen, self._in_session(call))

    def _session_call(self, command: CommandText, **options: Unpack[CommandOptions]) -> Command:
        call = self._call(command, **options)
        if call.user is not None:
            raise UnsupportedError(
                "execute runs commands as the user of its session; give user to execute_oneshot, start or session"
            )
        return call

    def _in_session(self, call: Command) -> CommandResult:
        if not self._may_call(call, "session"):
            return CommandResult.never_ran(self._known_cwd or "")
        with starts_end_with(call):
            result = self.run_in_session(call)
        if call.cwd is None:
            self._known_cwd = result.cwd
        return result

    def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, and change nothing in the session.

        It starts in the session's working directory with the target's own environment: what the session exported
        is not there, unless `session_env` asks for it. It is then as the session's last command left it. The result
        and errors are those of `execute`, but for `user`, which may be given.
        """
        call = self._call(command, **options)
        with self.observation.command(call, "oneshot") as seen:
            return came_of(seen, self._beside(call))

    def _beside(self, call: Command) -> CommandResult:
        if not self._may_call(call, "oneshot"):
            return CommandResult.never_ran(self._known_cwd or "")
        with starts_end_with(call):
            return self.run_beside(call)

    def execute_own(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do what `execute_oneshot` does, for a command of this package or of a hook itself: no hook is asked.

        Arguments, result and errors are those of `execute_oneshot`.
        """
        return self.run_beside(self._call(command, **options)._replace(is_own=True))

    def _call(self, command: CommandText, **options: Unpack[CommandOptions]) -> Command:
        self.touch()
        return checked(command, self.settings.timeout, **options)

    def _may_call(self, call: Command, way: Way) -> bool:
        """Ask about a command that was asked for. Returns False if nobody waits for it any more."""
        place = call.cwd or self._known_cwd
        return not call.is_cancelled and self.may_run(call.judged, place, way, call.user, lambda: call.is_cancelled)

    @abstractmethod
    def run_in_session(self, call: Command) -> CommandResult:
        """Do what `execute` says."""

    @abstractmethod
    def run_beside(self, call: Command) -> CommandResult:
        """Do what `execute_oneshot` says."""


def starts_end_with(call: Command) -> AbstractContextManager[object]:
    """Return what has the start of a target, if a call has to wait for one, end when the call is interrupted."""
    return start_limit(math.inf, interrupted=call.interrupt.is_set) if call.interrupt else contextlib.nullcontext()


class BaseEnvironment(Execution, TargetFiles, Whereabouts, Sessions, Readiness, ABC):
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
            SettingsError: A value cannot be understood, see `BackendSettings.check`, or the record cannot be written.
            UnsupportedError: The backend cannot do what is asked for.
        """
        super().__init__()
        self.settings_class.of(settings).check(settings)
        self.settings = settings
        self.passthrough = Passthrough(settings.env_passthrough)
        """The variables of this process that are handed on to commands and scripts. More may be allowed at any time."""
        self._secrets = SecretValues(settings, self.passthrough)
        self.observation = Watched(
            settings.env, settings.task_id, settings.record, settings.telemetry_text, partial(_redactor, self._secrets)
        )
        """Who looks on, and what they are told."""
        self.attachments = Attachments()
        """What the tools keep with this environment. `cleanup` closes it in the end."""
        self.progress = Reporter(settings.env)
        """Tells `create_environment`'s `on_progress` how far starts and transfers are."""
        self._last_used = time.monotonic()
        self._known_cwd: str | None = settings.cwd

    def model_view(self) -> ModelView:
        """Return what makes text of this environment fit for a model, as the settings say."""
        from environments.model_view import ModelView  # which commands have no need of

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

    @classmethod
    def find_targets(cls) -> Iterable[FoundTarget]:
        """Go through what runs for environments of this backend, and what is kept of them, whoever made it.

        A backend whose targets others can see, or that keeps something, extends this; `hermes-env ls` shows what it
        finds, and `hermes-env rm` removes it. Orphans are among it.

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

    def why_killed(self) -> str | None:
        """Say which limit of the target has ended a process since this was asked last, or None if none has.

        Asked when something ended with exit code 137. A backend that can tell overrides it.
        """
        return None

    @cancellable
    def start(
        self,
        command: CommandText,
        *,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
        **options: Unpack[SharedOptions],
    ) -> Process:
        """Start a command in the background and return a handle to it.

        It sees the target's own environment and, without `session_env`, not what the session exported. It ends with
        the environment.

        Args:
            command: Shell text or a program and its arguments, as for `execute`.
            pty: Whether to give it a terminal.
            rows: Height of that terminal in lines.
            columns: Width of that terminal in characters.
            stdin: `"open"` for an input that the handle writes to; `"none"` for one at its end; `"consumed"` for an
                open one of which the command is certain to read all that is written. The latter two leave the shell
                that ran the command for others, which saves time on a distant target.
            sink: Takes the output, in a thread of its own, in place of the handle's `read`.
            grace: Seconds between TERM and KILL when it is killed.
            options: See `SharedOptions`.

        Raises:
            UnsupportedError: The backend has no pty, or cannot run a command as that user.
            EnvironmentStartError: The target could not be started.
            DeniedError: A hook or a rule does not allow it.
            CallCancelledError: The scope of its caller was cancelled.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be.
        """
        call = self._call(command, timeout=math.inf, **options)
        background = Background.checked(stdin, Terminal.checked(rows, columns) if pty else None, sink, grace)
        with self.observation.process(call, pty) as seen:
            if not self._may_call(call, "background"):
                raise CallCancelledError("the scope was cancelled, so that the command was not started")
            background = background.tapped(seen)
            process = self.run_in_background(call, background)
            if call.is_cancelled:
                if sink:
                    sink.freeze()  # one that waits for what comes behind this call would wait for ever
                process.kill()
                raise CallCancelledError("the scope was cancelled while the command was started, and it was ended")
            return process.observed_by(seen, background.tap)

    def start_own(
        self,
        command: str,
        *,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
        **options: Unpack[SharedOptions],
    ) -> Process:
        """Do what `start` does, for a command of this package or of a hook itself: no hook is asked.

        Arguments, result and errors are those of `start`.
        """
        call = self._call(command, timeout=math.inf, **options)
        return self.run_in_background(call._replace(is_own=True), Background.checked(stdin, None, sink, grace))

    @abstractmethod
    def run_in_background(self, call: Command, background: Background) -> Process:
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


def _redactor(secrets: SecretValues, variables: Mapping[str, str]) -> Redactor:
    return Redactor.of({**secrets.known(), **secret_among(variables)})
