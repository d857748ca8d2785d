"""Commands of this package in an environment, and the way of every command on the loop thread."""

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
    from environments.approvals.decision import Way
    from environments.base import BaseEnvironment
    from environments.session import EnvironmentSession
    from environments.settings import EnvironmentSettings

Ended = Callable[[], CommandResult]
"""Makes the result of a command that has ended. Called in the caller's thread, as the text may be large."""
Work = Callable[[Call[Any], CheckedCommand], Awaitable[Ended]]
"""A coroutine function of the loop that runs a command."""


def result_of(command: CheckedCommand, work: Work) -> CommandResult:
    """Have the loop run a command, call its callback in this thread, and return its result."""
    teller = CallbackDecoder(command.on_output, command.binary) if command.on_output else None
    ended = run(lambda call: work(call, command), teller)
    if teller:
        teller.finish()
    return ended()


class Execution(NamedTuple):
    """A command that was checked, with all that it takes to run it: in this thread, or awaited by a task."""

    env: BaseEnvironment
    command: CheckedCommand
    way: Way | None
    """As hooks and observers are given it; None for a command of a hook, which none is given."""
    work: Work
    """Runs it on the loop thread."""
    session: EnvironmentSession | None = None
    """The named session in which it runs."""

    def operation(self) -> Operation:
        """Return the operation that observers are given."""
        name = self.session.name if self.session else None
        return self.env.observation.command(self.command, self.way, name) if self.way else UNOBSERVED

    @property
    def asks(self) -> bool:
        """True if a hook or a rule decides on it, which may take any time."""
        return self.way is not None and self.env.gate.asks_about_commands

    def is_permitted(self) -> bool:
        """Have the hooks and rules decide on it, see `Gate.permits`."""
        return self.way is None or self.env.gate.permits(self.command, self._known_cwd, self.way)

    def never_ran(self) -> CommandResult:
        """Return its result where it was cancelled before it began."""
        return CommandResult.never_ran(self._known_cwd() or "")

    def _known_cwd(self) -> str | None:
        return self.session._known_cwd if self.session else self.env.internal.known_cwd

    def result(self) -> CommandResult:
        """Run it, and wait for it in this thread."""
        with self.operation() as operation:
            return with_result(
                operation, result_of(self.command, self.work) if self.is_permitted() else self.never_ran()
            )


class Internal(ABC):
    """What this package, and a hook, runs in an environment: no hook or rule is asked, and no record is kept.

    Args:
        settings: Those of the environment.
    """

    def __init__(self, settings: EnvironmentSettings) -> None:
        self._settings = settings

    def execute(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do what `BaseEnvironment.execute_oneshot` does. Arguments, result and errors are the same."""
        call = checked(command, self._settings.timeout, **options)
        return result_of(call._replace(is_internal=True), self.run_beside)

    def start(self, command: str, **options: Unpack[StartOptions]) -> Process:
        """Do what `BaseEnvironment.start` does. Arguments, result and errors are the same."""
        call, background = checked_start(command, **options)
        return run(lambda waiting: self.run_in_background(waiting, call._replace(is_internal=True), background))

    @property
    @abstractmethod
    def known_cwd(self) -> str | None:
        """The session's directory as the last command left it; None before the first, if no setting names one."""

    @abstractmethod
    def variable(self, name: str) -> str:
        """Return a variable as the session's last command left it; empty if it is not set.

        It is one of `PWD`, `PATH`, `PYTHONPATH`, `PYTHONSAFEPATH`, `VIRTUAL_ENV` and `CONDA_PREFIX`. Of all but the
        first, what a script's tool calls make of them does not count: the next script's Python, modules and programs
        are no choice of theirs.
        """

    @abstractmethod
    def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use. It goes with the environment.

        Raises:
            TerminalError: It could not be made.
        """

    @abstractmethod
    def why_killed(self) -> str | None:
        """Return which limit of the target has ended a process since the last call; None if none has.

        Asked when something ended with exit code 137.
        """

    @abstractmethod
    def check_usable(self) -> None:
        """Raise TerminalError if `cleanup` was called."""

    # On the loop. `BaseEnvironment` has checked the command, and asked the hooks.

    @abstractmethod
    async def run_in_session(self, call: Call[Any], command: CheckedCommand) -> Ended:
        """Do what `BaseEnvironment.execute` describes."""

    @abstractmethod
    async def run_beside(self, call: Call[Any], command: CheckedCommand) -> Ended:
        """Do what `BaseEnvironment.execute_oneshot` describes."""

    @abstractmethod
    async def run_in_background(self, call: Call[Any], command: CheckedCommand, background: Background) -> Process:
        """Do what `BaseEnvironment.start` describes."""
