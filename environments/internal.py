"""Execution of commands on the loop thread, and the internal commands of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from environments.loop import Call, run
from environments.observation.events import UNOBSERVED, Operation
from environments.observation.observed import with_result
from environments.options import CheckedCommand, CommandOptions, StartOptions, checked
from environments.output import CallbackDecoder
from environments.process import Background, Process, checked_start
from environments.result import CommandResult

if TYPE_CHECKING:
    from environments.approvals.hooks import Way
    from environments.base import BaseEnvironment
    from environments.session import EnvironmentSession
    from environments.settings import EnvironmentSettings

Ended = Callable[[], CommandResult]
"""Builds the result of a finished command. Called in the caller's thread, as the text may be large."""
Work = Callable[[Call[Any], CheckedCommand], Awaitable[Ended]]
"""Coroutine function that runs a command on the loop."""


def result_of(command: CheckedCommand, work: Work) -> CommandResult:
    """Run a command on the loop and its callback in this thread, and return the result."""
    callback = CallbackDecoder(command.on_output, command.binary) if command.on_output else None
    ended = run(lambda call: work(call, command), callback)
    if callback:
        callback.finish()
    return ended()


class Execution(NamedTuple):
    """One run of a validated command: waited for by a thread, or awaited by a task."""

    env: BaseEnvironment
    command: CheckedCommand
    way: Way | None
    """The kind of call, for hooks and observers; None for a hook's own command, hidden from both."""
    work: Work
    """Runs the command on the loop thread."""
    session: EnvironmentSession | None = None
    """The named session of the command."""

    def operation(self) -> Operation:
        """Return the operation for observers."""
        name = self.session.name if self.session else None
        return self.env.observation.command(self.command, self.way, name) if self.way else UNOBSERVED

    @property
    def needs_decision(self) -> bool:
        """True if a hook or a rule decides on the command, for an unlimited time."""
        return self.way is not None and self.env.gate.has_command_checks

    def is_permitted(self) -> bool:
        """Ask the hooks and rules, see `Gate.permits`."""
        return self.way is None or self.env.gate.permits(self.command, self._known_cwd, self.way)

    def never_ran(self) -> CommandResult:
        """Return the result of a command that was cancelled before it began."""
        return CommandResult.never_ran(self._known_cwd() or "")

    def _known_cwd(self) -> str | None:
        return self.session._known_cwd if self.session else self.env.internal.known_cwd

    def result(self) -> CommandResult:
        """Run the command and wait in this thread."""
        with self.operation() as operation:
            return with_result(
                operation, result_of(self.command, self.work) if self.is_permitted() else self.never_ran()
            )


class Internal(ABC):
    """Internal commands in an environment, for this package and for hooks: without hooks, rules or records.

    Args:
        settings: Settings of the environment.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings

    def execute(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command as `BaseEnvironment.execute_oneshot` does, with the same arguments, result and errors."""
        call = checked(command, self._settings.timeout, **options)
        return result_of(call._replace(is_internal=True), self.run_beside)

    def start(self, command: str, **options: Unpack[StartOptions]) -> Process:
        """Start a command as `BaseEnvironment.start` does, with the same arguments, result and errors."""
        call, background = checked_start(command, **options)
        return run(lambda waiting: self.run_in_background(waiting, call._replace(is_internal=True), background))

    @property
    @abstractmethod
    def known_cwd(self) -> str | None:
        """The session's directory after the last command; None before the first, if no setting names one."""

    @abstractmethod
    def variable(self, name: str) -> str:
        """Return a variable as of the session's last command; empty if unset.

        The name is `PWD`, `PATH`, `PYTHONPATH`, `PYTHONSAFEPATH`, `VIRTUAL_ENV` or `CONDA_PREFIX`. Except for `PWD`,
        changes by a script's tool calls are ignored: a script must not choose the next script's Python, modules and
        programs.
        """

    @abstractmethod
    def scratch_directory(self) -> str:
        """Return the environment's private directory in the target, created on first use and removed by `cleanup`.

        Raises:
            TerminalError: The directory could not be created.
        """

    @abstractmethod
    def why_killed(self) -> str | None:
        """Return the limit of the target that ended a process since the last call; None without one.

        Called after an exit code 137.
        """

    @abstractmethod
    def check_usable(self) -> None:
        """Raise TerminalError if `cleanup` was called."""

    # On the loop, after `BaseEnvironment` has validated the command and asked the hooks.

    @abstractmethod
    async def run_in_session(self, call: Call[Any], command: CheckedCommand) -> Ended:
        """Run a command, see `BaseEnvironment.execute`."""

    @abstractmethod
    async def run_beside(self, call: Call[Any], command: CheckedCommand) -> Ended:
        """Run a command beside the session, see `BaseEnvironment.execute_oneshot`."""

    @abstractmethod
    async def run_in_background(self, call: Call[Any], command: CheckedCommand, background: Background) -> Process:
        """Start a command in the background, see `BaseEnvironment.start`."""
