"""What every environment does with commands that are waited for."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Unpack

from environments.approvals.gate import Gate
from environments.cancellation import start_limit
from environments.errors import UnsupportedError
from environments.observation.watched import Watched, came_of
from environments.options import Command, CommandOptions, CommandText, checked
from environments.result import CommandResult

if TYPE_CHECKING:
    from environments.approvals.decision import Way


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
