"""The shells that run in a target: how they are opened and ended."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from environments.errors import EnvironmentLostError, EnvironmentStartError, StartStoppedError, TerminalError
from environments.owner import MARKER_VARIABLE
from environments.settings import EnvironmentSettings
from environments.shell.dialect.base import Dialect
from environments.shell.dialect.boot import boot_argv
from environments.shell.dialect.commands import directory_name
from environments.shell.lifecycle import Lifecycle
from environments.shell.opening import Beginning, open_shell
from environments.shell.seat import Seat
from environments.shell.shell import Shell
from environments.shell.state import SessionState
from environments.shell.stream import Stream, StreamOpener, Terminal

_DEFAULT = Seat()

NOTHING = SessionState()
_NOBODY_ELSE: Mapping[str, str] = MappingProxyType({})


class Common:
    """What the shells of an environment have in common, whoever they run as."""

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        """Give each a number of its own: by that its processes are told from others'."""
        self.base = NOTHING
        """What other shells than ours begin with: what the files that a session begins with have exported."""


class TargetShells:
    """Opens shells in a target, and knows all that are open.

    Args:
        owner: The environment's name, which is in the marker of all processes of these shells.
        life: Says whether they may be opened.
        open_stream: Starts a process in the target.
        why_lost: Says why the target is gone, or None while it is there.
        lags: Whether what a process there prints may arrive late, see `Shell`.
        settings: Whether they see all of the target's variables. If not, they get those that settings give it anew.
        common: What they have in common with those of other users.
        identity: Variables that say who they run as, where that is another user than the target's own.
    """

    def __init__(
        self,
        owner: str,
        life: Lifecycle,
        open_stream: StreamOpener,
        why_lost: Callable[[], str | None],
        lags: Callable[[], bool],
        settings: EnvironmentSettings,
        common: Common,
        identity: Mapping[str, str] = _NOBODY_ELSE,
    ) -> None:
        # A command may use this package itself: what that starts is then also the command's.
        outer = os.environ.get(MARKER_VARIABLE, "")
        self._owner = f"{outer}:{owner}" if outer else owner
        self._life = life
        self._open_stream = open_stream
        self.why_lost = why_lost
        self._lags = lags
        self._scrub = settings.scrub_env
        self._own = settings.own
        self._common = common
        self._identity = identity
        self._lock = threading.Lock()
        self._open: dict[Shell, int] = {}
        self._readers: list[threading.Thread] = []
        self.dialect: type[Dialect] | None = None
        """The kind of shell the target has, once one has been opened."""
        self.home = ""
        """The target user's home directory."""

    @property
    def base(self) -> SessionState:
        """What other shells than ours begin with, see `Common`."""
        return self._common.base

    @base.setter
    def base(self, state: SessionState) -> None:
        self._common.base = state

    def open(self, state: SessionState = NOTHING, for_control: bool = False) -> Shell:
        """Open a shell.

        Args:
            state: What it is to begin with, but for functions and aliases.
            for_control: Whether it is for commands of our own, also while everything is being ended.

        Raises:
            EnvironmentStartError: It could not be opened.
            EnvironmentLostError: The same, because the target is gone.
            TerminalError: The environment was cleaned up.
        """
        exports = self.variables()
        beginning = Beginning(self._next_marker(), state, False, None, None, exports, self.dialect, self._lags())
        return self._opened(beginning, for_control=for_control)[0]

    @property
    def target_stays(self) -> bool:
        """Whether the target is the same behind a loss, see `Lifecycle`."""
        return self._life.stays

    def variables(self) -> Mapping[str, str]:
        """Return what a shell is to export: what the settings give one that sees the harmless variables alone."""
        given = self._own.target_variables() if self._scrub else {}
        return {**given, **self._identity}

    def open_for_session(
        self,
        cwd: str | None,
        state: SessionState,
        nowhere: bool,
        exports: Callable[[SessionState], Mapping[str, str]],
        interrupted: Callable[[], bool] = lambda: False,
        seat: Seat = _DEFAULT,
    ) -> tuple[Shell, str]:
        """Open a shell in a directory and with the state of an earlier one, or with as much of it as it can take.

        Args:
            cwd: The directory; None is where the target starts processes.
            state: The state.
            nowhere: Whether to be in no directory at all if that one cannot be entered.
            exports: Returns the variables to give to a shell that goes on from a state.
            interrupted: Whether it is not to be waited for any longer.
            seat: Where it is to be.

        Returns:
            The shell, and where it is, see `open_shell`. Raises as `open` does.
        """
        error: EnvironmentStartError | None = None
        for kept, functions in ((state, True), (state, False), (SessionState(), False)):
            marker = self._next_marker(seat.word)
            name = directory_name(marker) if nowhere else None
            try:
                given = exports(kept)
                beginning = Beginning(marker, kept, functions, cwd, name, given, self.dialect, self._lags())
                return self._opened(beginning, interrupted=interrupted, seat=seat)
            except StartStoppedError:
                raise
            except EnvironmentStartError as failed:
                error = error or failed
                if not state.reported:
                    break
        assert error
        raise error

    def open_on(self, terminal: Terminal) -> Shell:
        """Open a shell on a terminal of its own. Raises as `open` does, and UnsupportedError without terminals."""
        exports = self.variables()
        beginning = Beginning(self._next_marker(), self.base, functions=False, exports=exports, on_terminal=True)
        return self._opened(beginning, terminal)[0]

    def _opened(
        self,
        beginning: Beginning,
        terminal: Terminal | None = None,
        for_control: bool = False,
        interrupted: Callable[[], bool] = lambda: False,
        seat: Seat = _DEFAULT,
    ) -> tuple[Shell, str]:
        def check() -> None:
            """Raise what ends the wait for a shell that does not answer."""
            if not for_control:
                self._life.check()
                self._life.check_patience(interrupted)

        generation = self._life.ensure_started(for_control)
        try:
            if seat.terminal:
                beginning = beginning._replace(script_apart=True)
                stream = self._open_terminal(beginning.marker, seat.terminal, seat.new_script())
            else:
                stream = self._open_stream(boot_argv(beginning.marker, terminal is not None, self._scrub), terminal)
            shell, where = open_shell(stream, beginning, check)
        except StartStoppedError:
            raise
        except EnvironmentStartError:
            self._life.ensure_started(for_control)
            if loss := self.why_lost():
                raise self.lost(loss, generation) from None
            raise
        with self._lock:
            self._open[shell] = generation
        self.dialect = type(shell.dialect)
        self.home = shell.home
        if not self._life.lets_in(for_control) or generation != self._life.generation:
            self.end(shell)  # it was closed, or lost, while this was on its way
            self._life.check()
            raise self._life.lost("it went away while a shell was opened", generation)
        return shell, where

    def _open_terminal(self, marker: str, terminal: Terminal, script: str) -> Stream:
        from environments.shell.terminal_stream import open_terminal_stream  # most sessions are on no terminal

        argv = boot_argv(marker, scrub=self._scrub, script=script)
        return open_terminal_stream(self._open_stream, argv, terminal, marker, script)

    def open_process(self, argv: list[str]) -> Stream:
        """Start a program of ours that is no shell."""
        return self._open_stream(argv)

    def _next_marker(self, word: str = "") -> str:
        return f"{self.markers(word)}{next(self._common.numbers)}/"

    def marker(self, number: int) -> str:
        """Return what the marker variable begins with for all that one shell starts; 0 is what is no shell of ours."""
        return f"{self.markers()}{number}/"

    def markers(self, word: str = "") -> str:
        """Return what the markers of all shells of one seat begin with, see `Seat`."""
        return f"{self._owner}/{word}"

    def lost(self, why: str | None = None, generation: int | None = None) -> EnvironmentLostError:
        """Note that the target is gone, and return what to raise."""
        return self._life.lost(why or self.why_lost() or "the link to it dropped", generation)

    def postpone(self, error: TerminalError) -> None:
        """Have the next command raise a loss that was noticed where nobody can be told, see `Lifecycle`."""
        self._life.postpone(error)

    def generation_of(self, shell: Shell) -> int:
        """Return which target a shell is in."""
        with self._lock:
            return self._open.get(shell, 0)

    def is_current(self, shell: Shell) -> bool:
        """Whether a shell can be sent a request, and is in the target there is now."""
        return shell.fit and self.generation_of(shell) == self._life.generation

    def end(self, shell: Shell) -> None:
        """Close a shell."""
        with self._lock:
            self._open.pop(shell, None)
        shell.close()

    def note_reader(self, thread: threading.Thread) -> None:
        """Note a thread that reads what a shell says and nobody wants. It may end with the target alone."""
        with self._lock:
            self._readers = [*filter(threading.Thread.is_alive, self._readers), thread]

    def join(self) -> None:
        """Wait until those threads have ended."""
        for thread in self._readers:
            thread.join()

    def end_all(self, but: Collection[Shell] = ()) -> None:
        """Close every shell, also those that are lent, but for some."""
        with self._lock:
            shells = [shell for shell in self._open if shell not in but]
        for shell in shells:
            self.end(shell)
