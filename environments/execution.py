"""What every environment does with commands that are waited for."""

from __future__ import annotations

import contextlib
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Unpack

from environments.approvals.gate import Gate
from environments.call import Call, CallArguments, Command, StderrMode, checked_call
from environments.cancellation import start_limit
from environments.listener import OutputCallback
from environments.observation.watched import Watched, came_of
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
        with self.observation.command(call, "session") as seen:
            return came_of(seen, self._in_session(call))

    def _in_session(self, call: Call) -> CommandResult:
        if not self._may_call(call, "session"):
            return CommandResult.never_ran(self._known_cwd or "")
        with _starts_end_with(call):
            result = self.run_in_session(call)
        if call.cwd is None and call.user is None:
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
        with self.observation.command(call, "oneshot") as seen:
            return came_of(seen, self._beside(call))

    def _beside(self, call: Call) -> CommandResult:
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
        return self.run_beside(call._replace(is_own=True))

    def _call(self, command: Command, limit: float | None, **arguments: Unpack[CallArguments]) -> Call:
        self.touch()
        return checked_call(command, self.settings.timeout if limit is None else limit, **arguments)

    def _may_call(self, call: Call, way: Way) -> bool:
        """Ask about a command that was asked for. Returns False if nobody waits for it any more."""
        place = call.cwd or self._known_cwd
        return not call.is_cancelled and self.may_run(call.judged, place, way, call.user, lambda: call.is_cancelled)

    @abstractmethod
    def run_in_session(self, call: Call) -> CommandResult:
        """Do what `execute` says."""

    @abstractmethod
    def run_beside(self, call: Call) -> CommandResult:
        """Do what `execute_oneshot` says."""


def _starts_end_with(call: Call) -> AbstractContextManager[object]:
    """Return what has the start of a target, if a call has to wait for one, end when the call is interrupted."""
    return start_limit(math.inf, interrupted=call.interrupt.is_set) if call.interrupt else contextlib.nullcontext()
