"""The session: one command after another, in a shell whose state lasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from environments.call import Call
from environments.errors import CallCancelledError
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.beside import Beside, Origin
from environments.shell.exported import Exported
from environments.shell.hearing import REPORT_TIMEOUT
from environments.shell.leftovers import Leftovers
from environments.shell.request import Where
from environments.shell.requests import Requests
from environments.shell.runner import NotBegunError, Runner, Sent
from environments.shell.seat import Seat
from environments.shell.session_shell import SessionShell
from environments.shell.shell import Shell
from environments.shell.state import SessionState
from environments.shell.stream import Terminal
from environments.shell.target_shells import TargetShells
from environments.shell.turn import Turn
from environments.starting import is_unwanted

if TYPE_CHECKING:
    from environments.shell.init_files import InitFiles
    from environments.shell.keyboard import Keyboard

OPENING_POLL = 0.02
"""Seconds between looks at a session that another thread opens."""


class Session:
    """Runs one command after another in a shell that it keeps.

    A shell ends with a command such as `exit`, or because a command had to be ended. Its successor goes on with the
    directory, exports, functions, aliases, options and umask that it reported last.

    Args:
        shells: Opens shells.
        runner: Runs a request in one.
        requests: Makes a request of a call.
        leftovers: Sets a shell apart from what its last command has left.
        settings: Where the session begins, whether it keeps its shell, and how much of an output is kept.
        on_sent: Called when a shell has been sent a command.
        variables: Return the variables that are handed on to it.
        seat: Where its shells are.
    """

    def __init__(
        self,
        shells: TargetShells,
        runner: Runner,
        requests: Requests,
        leftovers: Leftovers,
        settings: EnvironmentSettings,
        on_sent: Callable[[], object],
        variables: Callable[[], Mapping[str, str]],
        seat: Seat | None = None,
    ) -> None:
        self._shells = shells
        self._runner = runner
        self._requests = requests
        self._on_sent = on_sent
        seat = seat or Seat()
        self._keyboard = _new_keyboard() if seat.terminal else None
        self._turn = Turn(self._known_cwd)
        begins = _init_files(shells, runner, settings)
        self._shell = SessionShell(shells, begins, leftovers, settings, variables, seat, self._turn)

    def _known_cwd(self) -> str:
        return self._shell.variables.get("PWD", "")

    @property
    def busy(self) -> bool:
        """Whether a command has its turn."""
        return self._turn.is_taken

    def interrupt(self) -> None:
        """End the command whose turn it is, see `Turn`."""
        self._turn.interrupt()

    # One command.

    def run(self, call: Call) -> CommandResult:
        """Wait for one's turn, and run a command, see `BaseEnvironment.execute`."""
        return self._turn.take(call, partial(self._typed_at, call) if self._keyboard else partial(self._run, call))

    def run_apart(self, call: Call, beside: Beside) -> CommandResult:
        """Wait for one's turn, and run a command that begins with what the session has, and changes nothing of it.

        Args:
            call: The command.
            beside: Runs it, in a shell of whichever user it is for.
        """
        there = call._replace(session_env=True)
        return self._turn.take(call, partial(self._run_apart, there, beside))

    def _run(self, call: Call) -> CommandResult:
        return self._runner.until_begun(partial(self._run_once, call))

    def _run_once(self, call: Call) -> CommandResult:
        shell = self._shell.ready_for(call)
        if shell is None:
            return self._nowhere_to_run()
        try:
            sent, held = self._send(shell, call)
        except BrokenPipeError:  # it had died since its last command, and got nothing of this one
            self._shell.end(shell)
            raise NotBegunError from None
        return self._run_to_end(sent, call, held)

    def _run_apart(self, call: Call, beside: Beside) -> CommandResult:
        if self._shell.ready_for(call) is None:
            return self._nowhere_to_run()
        self._on_sent()
        return beside.run(call, Origin(self.variable, self.exported), self._turn.announce)

    def _send(self, shell: Shell, call: Call) -> tuple[Sent, SessionState | None]:
        """Send a command, and return what the shell held before, if the command has variables of its own."""
        held = None
        if call.env:
            shell.await_report()
            held = shell.reported
        exports = self._shell.handover.due()
        if self._keyboard:
            self._keyboard.take_over(shell)
        marker = self._requests.sent(call, Where.MAIN, shell.send, exports=exports)
        self._shell.handover.sent(exports, shell.number)
        return Sent(shell, marker, Where.MAIN), held

    def _run_to_end(self, sent: Sent, call: Call, held: SessionState | None) -> CommandResult:
        try:
            self._on_sent()
            return self._runner.result(sent, call, announce=self._turn.announce)
        finally:
            self._shell.command_ended(sent.shell, call, held)

    def _typed_at(self, call: Call) -> CommandResult:
        """Run a command that may be typed at meanwhile."""
        assert self._keyboard
        try:
            return self._run(call)
        finally:
            self._keyboard.command_ended()

    def _nowhere_to_run(self) -> CommandResult:
        place = self._known_cwd()
        return CommandResult(
            f"cd: {place}: the session's directory cannot be entered any more, and nothing was run; make it again, or "
            "leave it with `cd`\n",
            1,
            stderr=None,
            cwd=place,
        )

    # What it has.

    def variable(self, name: str, *, sourced: bool = True) -> str:
        """Return a watched variable as the last command left it, without waiting for one that runs.

        One of `INTERPRETER_VARIABLES` is returned as the session's owner left it, whatever scripts do.

        Args:
            name: The variable.
            sourced: Whether the files that a session begins with are to have been sourced.

        Raises:
            TerminalError: The session could not be opened.
        """
        while not self._shell.variables or (sourced and self._shell.is_to_source and not self._shell.is_nowhere):
            # A first command, which may run for long, has the lock, and makes them known as soon as its shell is open.
            if self._turn.lock.acquire(timeout=OPENING_POLL):
                try:
                    self._shell.open()
                    if sourced:
                        self._shell.source()
                finally:
                    self._turn.lock.release()
            elif is_unwanted():
                raise CallCancelledError("the call was cancelled while it waited for the session to be opened")
        return self._shell.trusted.get(name, self._shell.variables.get(name, ""))

    def exported(self) -> Exported:
        """Return what the last command that has ended left exported, without waiting for one that runs.

        Of `INTERPRETER_VARIABLES` it is what the session's owner left.

        Raises:
            TerminalError: The session could not be opened.
        """
        self.variable("PWD")
        if self._turn.is_mine:
            return self._reported()
        deadline = time.monotonic() + REPORT_TIMEOUT
        while not self._turn.lock.acquire(timeout=OPENING_POLL):
            shell = self._shell.current
            if shell is None or shell.has_reported or time.monotonic() > deadline:
                return self._exported_by(shell)
        try:
            return self._reported()
        finally:
            self._turn.lock.release()

    def _reported(self) -> Exported:
        """Return it once the shell has told it, which the current thread reads from."""
        if shell := self._shell.current:
            shell.catch_up()
        return self._exported_by(shell)

    def _exported_by(self, shell: Shell | None) -> Exported:
        state = shell.reported if shell else self._shell.state
        return Exported(self._shells.dialect, state, dict(self._shell.trusted), self._shell.handover.due())

    @property
    def is_ready(self) -> bool:
        """Whether a shell waits for the next command, as far as its stream says by now."""
        if not self._turn.lock.acquire(blocking=False):
            return True  # somebody uses it
        try:
            shell = self._shell.current
            return shell is not None and self._shells.is_current(shell) and shell.waits()
        finally:
            self._turn.lock.release()

    # A terminal.

    def type(self, data: bytes) -> None:
        """Type on its terminal, see `Keyboard`."""
        assert self._keyboard
        self._keyboard.type(data)

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal, see `SessionShell`."""
        self._shell.resize(terminal)

    # Its end.

    def end(self, end_rest: Callable[[Shell | None], object]) -> None:
        """End the command that runs, and the shell. Whoever waits for a turn, waits in vain.

        Args:
            end_rest: Ends what is left of its commands, given the shell that ran them last.

        Raises:
            TerminalError: This thread runs a command in it, or `end_rest` raises it.
        """
        self._turn.check_outside("close")
        self._turn.is_over = True
        self.interrupt()
        try:
            with self._turn.lock:
                shell, self._shell.current = self._shell.current, None
                try:
                    if self._shell.variables:  # which are known since it was opened
                        end_rest(shell)
                finally:
                    if shell:
                        self._shells.end(shell)
        finally:
            self.close()

    def close(self) -> None:
        """Wait for what is done in the background, once all shells are closed."""
        self._shell.close()
        if self._keyboard:
            self._keyboard.close()


def _new_keyboard() -> Keyboard:
    from environments.shell.keyboard import Keyboard  # most sessions are on no terminal

    return Keyboard()


def _init_files(shells: TargetShells, runner: Runner, settings: EnvironmentSettings) -> InitFiles | None:
    if not (settings.login_shell or settings.init_files):
        return None
    from environments.shell.init_files import InitFiles  # most sessions begin with no file

    return InitFiles(shells, runner, settings)
