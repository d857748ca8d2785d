"""The session: the shell whose state lasts, whose turn it is, and what a shell leaves to its successor."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from environments.call import Call
from environments.cancellation import current_scope
from environments.errors import EnvironmentStartError, StartStoppedError, TerminalError
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.framing import WATCHED
from environments.shell.handover import Handover
from environments.shell.leftovers import Leftovers
from environments.shell.opening import IN_PLACE, NOWHERE
from environments.shell.parked import ParkedShells
from environments.shell.request import Where
from environments.shell.requests import Requests
from environments.shell.runner import Runner, Sent
from environments.shell.running import RunningCommand
from environments.shell.shell import Shell, ShellState
from environments.shell.state import SessionState, with_variables_of
from environments.shell.target_shells import TargetShells

SCOPE_POLL = 0.1
"""Seconds between looks at a cancelled scope while waiting for one's turn."""
OPENING_POLL = 0.02
"""Seconds between looks at a session that another thread opens."""
ATTEMPTS = 3
"""How many shells are tried that have died while they were idle."""
INTERPRETER_VARIABLES = tuple(name for name in WATCHED if name != "PWD")
"""What decides which code runs as a script's Python, and which as its modules and programs."""
_LEAVES = re.compile(r"\s*cd\b")


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
    ) -> None:
        self._shells = shells
        self._runner = runner
        self._requests = requests
        self._leftovers = leftovers
        self._parked = ParkedShells(shells)
        self._settings = settings
        self._on_sent = on_sent
        self._handover = Handover(variables)
        self._lock = threading.RLock()
        self._shell: Shell | None = None
        self._is_nowhere = False
        self._state = SessionState()
        self._generation = 0
        self._variables: Mapping[str, str] = {}
        self._trusted: dict[str, str] = {}
        """Variables that a script's tool call has changed, with the values they had before."""
        self._running: RunningCommand | None = None
        self._granted = self._end_asked = False
        self._settling: threading.Thread | None = None

    # Whose turn it is.

    def run(self, call: Call) -> CommandResult:
        """Wait for one's turn, and run a command, see `BaseEnvironment.execute`."""
        if self._lock._is_owned():  # type: ignore[attr-defined]  # no flag of ours would be right whatever is raised
            raise TerminalError(
                "execute was called while this thread runs a command in the same session, such as from on_output; use "
                "execute_oneshot, which runs beside it"
            )
        scope = current_scope()
        if scope is None:
            with self._lock:  # which control-C cannot get in between of
                return self._run(call)
        while not self._lock.acquire(timeout=SCOPE_POLL):
            if scope.cancelled:
                return CommandResult.never_ran(self.variable("PWD"))
        try:
            return CommandResult.never_ran(self.variable("PWD")) if scope.cancelled else self._run(call)
        finally:
            self._lock.release()

    def interrupt(self) -> None:
        """End the command whose turn it is. One that is still on its way to the target is ended when it has begun."""
        self._end_asked = self._granted
        if running := self._running:
            running.interrupt()

    def _announce(self, running: RunningCommand | None) -> None:
        self._running = running
        if running and self._end_asked:
            running.interrupt()

    def variable(self, name: str) -> str:
        """Return a watched variable as the last command left it, without waiting for one that runs.

        One of `INTERPRETER_VARIABLES` is returned as the session's owner left it, whatever scripts do.

        Raises:
            TerminalError: The session could not be opened.
        """
        while not self._variables:
            # A first command, which may run for long, has the lock, and makes them known as soon as its shell is open.
            if self._lock.acquire(timeout=OPENING_POLL):
                try:
                    self._open()
                finally:
                    self._lock.release()
        return self._trusted.get(name, self._variables.get(name, ""))

    # One command.

    def _run(self, call: Call) -> CommandResult:
        self._granted, self._end_asked = True, False
        try:
            for _ in range(ATTEMPTS):
                shell = self._shell_for(call)
                if shell is None:
                    return self._nowhere_to_run()
                try:
                    sent, held = self._send(shell, call)
                except BrokenPipeError:  # it had died since its last command, and got nothing of this one
                    self._replace(shell)
                else:
                    return self._run_to_end(sent, call, held)
            raise self._shells.lost("its shells end as soon as they are opened")
        except StartStoppedError:
            if not self._end_asked:
                raise
            return CommandResult.never_ran(self._variables.get("PWD", ""))
        finally:
            self._granted = False

    def _send(self, shell: Shell, call: Call) -> tuple[Sent, SessionState | None]:
        """Send a command, and return what the shell held before, if the command has variables of its own."""
        held = None
        if call.env:
            shell.await_report()
            held = shell.reported
        exports = self._handover.due()
        marker = self._requests.sent(call, Where.MAIN, shell.send, exports=exports)
        self._handover.sent(exports, shell.number)
        return Sent(shell, marker, Where.MAIN), held

    def _run_to_end(self, sent: Sent, call: Call, held: SessionState | None) -> CommandResult:
        try:
            self._on_sent()
            return self._runner.result(sent, call, self._settings.max_output_bytes, announce=self._announce)
        finally:
            self._command_ended(sent.shell, call, held)

    def _command_ended(self, shell: Shell, call: Call, held: SessionState | None) -> None:
        """Note what a command has left behind.

        Args:
            shell: The shell that ran it.
            call: The command.
            held: What the shell held before, if the command had variables of its own: they are in the last words of a
                shell that it ended.
        """
        if shell.state is ShellState.ENDED or not self._settings.persistent_shell:
            shell.await_report()
        values = dict(shell.variables)
        self._note_doubtful(values)
        stays = call.cwd is not None or (self._is_nowhere and "hermes-" in values.get("PWD", ""))
        if stays:  # it ran in a directory of its own, which the session does not keep
            values |= {name: self._variables.get(name, "") for name in ("PWD", "OLDPWD")}
        self._variables = values
        if shell.state is not ShellState.IDLE or not self._settings.persistent_shell or (self._is_nowhere and stays):
            self._replace(shell)
            if held and shell.last_words:
                self._state = with_variables_of(self._state, held, call.env)
        elif shell.has_leftovers:
            self._settle_soon(shell)

    def _note_doubtful(self, values: Mapping[str, str]) -> None:
        """Keep apart what a script's tool call made of the variables that decide which code a later script runs."""
        scope = current_scope()
        for name in INTERPRETER_VARIABLES:
            known = self._variables.get(name, "")
            if values.get(name, "") == known:
                continue
            if scope and not scope.is_trusted:
                self._trusted.setdefault(name, known)
            else:
                self._trusted.pop(name, None)

    def _nowhere_to_run(self) -> CommandResult:
        place = self._variables["PWD"]
        return CommandResult(
            f"cd: {place}: the session's directory cannot be entered any more, and nothing was run; make it again, or "
            "leave it with `cd`\n",
            1,
            stderr=None,
            cwd=place,
        )

    # The shell.

    def _shell_for(self, call: Call) -> Shell | None:
        """Return a shell for a command; None if it has no directory to run in."""
        shell = self._shell
        if shell and not self._shells.is_current(shell):
            self._replace(shell)
        elif shell and (shell.has_leftovers or shell.is_noisy):
            self._settle(shell)
        if self._shell:
            return self._shell
        where = self._open()
        away = call.cwd is not None and call.cwd.startswith(("/", "~"))
        if where == IN_PLACE or away or (where == NOWHERE and _LEAVES.match(call.command)):
            return self._shell
        if self._shell:
            self._replace(self._shell)
        return None

    def _open(self) -> str:
        """Open a shell if there is none, and return where it is."""
        if self._shell:
            return IN_PLACE
        first = not self._variables
        cwd = self._settings.cwd if first else self._variables["PWD"]
        opened = partial(
            self._shells.open_for_session, exports=self._handover.due_with, interrupted=lambda: self._end_asked
        )
        shell, where = opened(cwd, self._state, nowhere=not first)
        generation = self._shells.generation_of(shell)
        if not first and where != IN_PLACE and generation != self._generation:  # a new target has no such directory
            self._shells.end(shell)
            shell, where = opened(self._settings.cwd, self._state, nowhere=False)
            first = True
        self._generation = generation
        if first and where != IN_PLACE:
            self._shells.end(shell)
            raise EnvironmentStartError(
                f"the working directory {cwd} cannot be entered there; create it, or set TERMINAL_CWD to one "
                "that exists"
            )
        self._shell = shell
        self._handover.opened()
        self._is_nowhere = where != IN_PLACE
        if first:
            self._variables = dict(shell.variables)
            self._trusted.clear()
        return where

    def _replace(self, shell: Shell) -> None:
        """End a shell, keeping the state that it reported last."""
        if shell.state in (ShellState.RUNNING, ShellState.UNFIT):  # something was raised, and may have cost a report
            shell.retire()
        self._let_go(shell)
        self._shells.end(shell)

    def _let_go(self, shell: Shell) -> None:
        self._state = replace(shell.reported, variables=self._variables)
        self._handover.ended(shell.reported_number)
        self._shell = None

    # What commands leave in the background.

    def _settle(self, shell: Shell) -> None:
        try:
            self._leftovers.settle(shell)
        except BrokenPipeError:
            self._replace(shell)
        except TerminalError as error:  # the target cannot do it, so that another shell has to, or is gone
            self._shells.postpone(error)
            self._let_go(shell)
            self._parked.park(shell)

    def _settle_soon(self, shell: Shell) -> None:
        """Do so without delaying the return of the command that left something."""

        def settle() -> None:
            with self._lock:
                if self._shell is shell and shell.fit and shell.has_leftovers:
                    self._settle(shell)

        thread = threading.Thread(target=settle, name="hermes-leftovers", daemon=True)
        thread.start()
        self._settling = thread

    def close(self) -> None:
        """Wait for what is done in the background, once all shells are closed."""
        self._parked.close()
        if self._settling:
            self._settling.join()
