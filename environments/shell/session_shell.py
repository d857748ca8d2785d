"""The shell that a session keeps, and what it leaves to its successor."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from environments.call import Call
from environments.cancellation import current_scope
from environments.errors import EnvironmentStartError, TerminalError
from environments.settings import EnvironmentSettings
from environments.shell.framing import PLACE_FIELDS, WATCHED
from environments.shell.handover import Handover
from environments.shell.hearing import ShellState
from environments.shell.leftovers import Leftovers
from environments.shell.opening import IN_PLACE, NOWHERE
from environments.shell.parked import ParkedShells
from environments.shell.seat import Seat
from environments.shell.shell import Shell
from environments.shell.state import SessionState, with_variables_of
from environments.shell.stream import Terminal
from environments.shell.target_shells import TargetShells
from environments.shell.turn import Turn

if TYPE_CHECKING:
    from environments.shell.init_files import InitFiles

INTERPRETER_VARIABLES = tuple(name for name in WATCHED if name != "PWD")
"""What decides which code runs as a script's Python, and which as its modules and programs."""
_LEAVES = re.compile(r"\s*cd\b")


class SessionShell:
    """One shell after another, each of which goes on from what the one before it reported last.

    All of it is used by whoever has the session's turn, but what is said to be read by others.

    Args:
        shells: Opens shells.
        init_files: Has the first of them in a target source what a session begins with; None if that is nothing.
        leftovers: Sets a shell apart from what its last command has left.
        settings: Where the session begins, and whether it keeps its shell.
        variables: Return the variables that are handed on to it.
        seat: Where the shells are.
        turn: Whose turn it is.
    """

    def __init__(
        self,
        shells: TargetShells,
        init_files: InitFiles | None,
        leftovers: Leftovers,
        settings: EnvironmentSettings,
        variables: Callable[[], Mapping[str, str]],
        seat: Seat,
        turn: Turn,
    ) -> None:
        self.current: Shell | None = None
        """The shell there is. Others may read what it has reported."""
        self.state = SessionState()
        """What the one before it held."""
        self.variables: Mapping[str, str] = {}
        """The watched variables as the last command left them; nothing before the first shell. Others may read them."""
        self.trusted: dict[str, str] = {}
        """Variables that a script's tool call has changed, with the values they had before. Others may read them."""
        self.is_nowhere = False
        """Whether it could not enter the session's directory."""
        self.is_to_source = False
        """Whether it has yet to source what a session begins with."""
        self.handover = Handover(variables)
        self._shells = shells
        self._init_files = init_files
        self._leftovers = leftovers
        self._parked = ParkedShells(shells)
        self._settings = settings
        self._seat = seat
        self._turn = turn
        self._generation = 0
        self._settling: threading.Thread | None = None

    def ready_for(self, call: Call) -> Shell | None:
        """Return a shell for a command; None if it has no directory to run in."""
        shell = self.current
        if shell and not self._shells.is_current(shell):
            self.end(shell)
        elif shell and (shell.has_leftovers or shell.is_noisy):
            self._settle(shell)
        where = self.open()
        if self.is_to_source:
            self.source()
            where = self.open()
        away = call.cwd is not None and call.cwd.startswith(("/", "~"))
        if where == IN_PLACE or away or (where == NOWHERE and _LEAVES.match(call.command)):
            return self.current
        if self.current:
            self.end(self.current)
        return None

    def open(self) -> str:
        """Open a shell if there is none, and return where it is, see `open_shell`."""
        if self.current:
            return IN_PLACE
        first = not self.variables
        cwd = self._settings.cwd if first else self.variables["PWD"]
        shell, where = self._opened(cwd, self.state, nowhere=not first)
        generation = self._shells.generation_of(shell)
        if first or (generation != self._generation and not self._shells.target_stays):
            self.is_to_source = self._init_files is not None
        if not first and where != IN_PLACE and generation != self._generation:  # a new target has no such directory
            self._shells.end(shell)
            shell, where = self._opened(self._settings.cwd, self.state, nowhere=False)
            first = True
        self._generation = generation
        if first and where != IN_PLACE:
            self._shells.end(shell)
            raise EnvironmentStartError(
                f"the working directory {cwd} cannot be entered there; create it, or set TERMINAL_CWD to one "
                "that exists"
            )
        self.handover.opened()
        self.current = shell
        self.is_nowhere = where != IN_PLACE
        if first:
            self.variables = dict(shell.variables)
            self.trusted.clear()
        return where

    def _opened(self, cwd: str | None, state: SessionState, nowhere: bool) -> tuple[Shell, str]:
        return self._shells.open_for_session(
            cwd,
            state,
            nowhere,
            self.handover.due_with,
            lambda: self._turn.end_asked,
            self._seat,
        )

    def source(self) -> None:
        """Have the shell source what a session begins with in a target, unless that was done. It stays where it is."""
        shell = self.current
        if not shell or not self._init_files or not self.is_to_source or self.is_nowhere:
            return

        def again(ended: Shell) -> Shell:
            ended.await_report()
            self._shells.end(ended)
            return self._opened(self.variables["PWD"], ended.reported, nowhere=False)[0]

        self.current = None
        shell = self._init_files.source(shell, self.handover.given, again, lambda: self._turn.end_asked)
        self.current, self._generation = shell, self._shells.generation_of(shell)
        self.is_to_source = False
        places = {name: self.variables.get(name, "") for name in PLACE_FIELDS}
        self.variables = {**shell.variables, **places}
        if shell.has_leftovers or shell.is_noisy:
            self._settle(shell)

    # What a command leaves.

    def command_ended(self, shell: Shell, call: Call, held: SessionState | None) -> None:
        """Note what a command has left behind.

        Args:
            shell: The shell that ran it.
            call: The command.
            held: What the shell held before, if the command had variables of its own: they are in the last words of a
                shell that it ended.
        """
        if shell.state is ShellState.ENDED:
            shell.await_report()
        values = dict(shell.variables)
        self._note_doubtful(values)
        stays = call.cwd is not None or (self.is_nowhere and "hermes-" in values.get("PWD", ""))
        if stays:  # it ran in a directory of its own, which the session does not keep
            values |= {name: self.variables.get(name, "") for name in ("PWD", "OLDPWD")}
        self.variables = values
        if shell.state is not ShellState.IDLE or not self._settings.persistent_shell or (self.is_nowhere and stays):
            self.end(shell)
            if held and shell.last_words:
                self.state = with_variables_of(self.state, held, call.env)
        elif shell.has_leftovers:
            self._settle_soon(shell)

    def _note_doubtful(self, values: Mapping[str, str]) -> None:
        """Keep apart what a script's tool call made of the variables that decide which code a later script runs."""
        scope = current_scope()
        for name in INTERPRETER_VARIABLES:
            known = self.variables.get(name, "")
            if values.get(name, "") == known:
                continue
            if scope and not scope.is_trusted:
                self.trusted.setdefault(name, known)
            else:
                self.trusted.pop(name, None)

    def end(self, shell: Shell) -> None:
        """End a shell, keeping the state that it reported last."""
        if shell.state in (ShellState.RUNNING, ShellState.UNFIT):  # something was raised, and may have cost a report
            shell.retire()
        elif shell.state is not ShellState.CLOSED:
            shell.await_report()  # it may be here, and not yet read
        self._let_go(shell)
        self._shells.end(shell)

    def _let_go(self, shell: Shell) -> None:
        self.state = shell.reported._replace(variables=self.variables)
        self.handover.ended(shell.reported_number)
        self.current = None

    def _settle(self, shell: Shell) -> None:
        try:
            self._leftovers.settle(shell)
        except BrokenPipeError:
            self.end(shell)
        except TerminalError as error:  # the target cannot do it, so that another shell has to, or is gone
            self._shells.postpone(error)
            self._let_go(shell)
            self._parked.park(shell)

    def _settle_soon(self, shell: Shell) -> None:
        """Do so without delaying the return of the command that left something."""

        def settle() -> None:
            with self._turn.lock:
                if self.current is shell and shell.fit and shell.has_leftovers:
                    self._settle(shell)

        thread = threading.Thread(target=settle, name="hermes-leftovers", daemon=True)
        thread.start()
        self._settling = thread

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal, and of those that come after that."""
        self._seat = self._seat._replace(terminal=terminal)
        if shell := self.current:
            with contextlib.suppress(OSError, ValueError):  # it ends just now
                shell.stream.resize(terminal)

    def close(self) -> None:
        """Wait for what is done in the background, once all shells are closed."""
        self._parked.close()
        if self._settling:
            self._settling.join()
