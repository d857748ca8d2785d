"""What every environment is."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, Unpack

from environments.attachments import Attachments
from environments.cancellation import cancellable
from environments.errors import CallCancelledError
from environments.execution import Execution
from environments.observation.watched import Watched
from environments.options import Command, CommandText, SharedOptions, StdinMode
from environments.owner import Orphan
from environments.passthrough import Passthrough
from environments.process import GRACE, Background
from environments.progress import Reporter
from environments.readiness import Readiness
from environments.result import Capabilities
from environments.secret_values import SecretValues, secret_among
from environments.session import Sessions
from environments.settings import BackendSettings, EnvironmentSettings
from environments.sink import OutputSink
from environments.target_files import TargetFiles
from environments.terminal import Terminal
from environments.whereabouts import Whereabouts

if TYPE_CHECKING:
    from environments.found_target import FoundTarget
    from environments.model_view import ModelView
    from environments.process import Process
    from environments.redaction import Redactor


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
    from environments.redaction import Redactor  # which commands have no need of

    return Redactor.of({**secrets.known(), **secret_among(variables)})
