"""The session: the shell whose state lasts, whose turn it is, and what a shell leaves to its successor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from environments.cancellation import current_scope
from environments.errors import EnvironmentStartError
from environments.shell.running import RunningCommand
from environments.shell.shell import Request, Shell

SCOPE_POLL = 0.1
"""Seconds between looks at a cancelled scope while waiting for one's turn."""
OPENING_POLL = 0.02
"""Seconds between looks at a session that another thread opens."""


class Session:
    """Keeps a shell open for one command after another.

    A shell ends with a command such as `exit`, or because a command had to be ended. Its successor goes on with the
    working directory, exports, functions, aliases and options that it reported last.

    Args:
        open_shell: Opens a shell in a directory and with an earlier one's state.
        first_cwd: Where the session begins; None is where the target starts its processes.
        keep_shell: Whether one shell is used for many commands, or each command gets a new one.
    """

    def __init__(self, open_shell: Callable[[str | None, str], Shell], first_cwd: str | None, keep_shell: bool) -> None:
        self._open_shell = open_shell
        self._first_cwd = first_cwd
        self._keep_shell = keep_shell
        self._lock = threading.RLock()  # what a command needs as files is put there when it is its turn already
        self._shell: Shell | None = None
        self._state = ""
        self._variables: dict[str, str] = {}
        self._running: RunningCommand | None = None
        self._granted = self._end_asked = False

    @property
    def running(self) -> RunningCommand | None:
        """The command that runs."""
        return self._running

    @running.setter
    def running(self, running: RunningCommand | None) -> None:
        self._running = running
        if running and self._end_asked:
            running.interrupt()

    def interrupt(self) -> None:
        """End the command whose turn it is. One that is still on its way to the target is ended when it has begun."""
        self._end_asked = self._granted
        if running := self._running:
            running.interrupt()

    @contextlib.contextmanager
    def turn(self) -> Iterator[bool]:
        """Wait for one's turn; yields False if the caller's scope was cancelled by then."""
        scope = current_scope()
        while not self._lock.acquire(timeout=SCOPE_POLL if scope else -1):
            if scope and scope.cancelled:
                yield False
                return
        try:
            self._granted, self._end_asked = True, False
            yield not (scope and scope.cancelled)
        finally:
            self._granted = False
            self._lock.release()

    def variable(self, name: str) -> str:
        """Return a watched variable as the last command left it, without waiting for one that runs."""
        while not self._variables:
            # A first command, which may run for long, has the lock, and makes them known as soon as its shell is open.
            if self._lock.acquire(timeout=OPENING_POLL):
                try:
                    self._open()
                finally:
                    self._lock.release()
        return self._variables[name]

    def send(self, request: Request) -> tuple[Shell, str]:
        """Send a request to the session's shell; returns that and the request's marker. It must be one's turn."""
        shell = self._open()
        try:
            return shell, shell.send(request)
        except BrokenPipeError:  # it ended since its last command, and got nothing of this one
            self._replace(shell)
            shell = self._open()
            return shell, shell.send(request)

    def command_ended(self, shell: Shell, moved_for_one_command: bool) -> None:
        """Note what a command has left behind.

        Args:
            shell: The shell that ran it.
            moved_for_one_command: Whether it ran in a directory of its own, which the session does not keep.
        """
        cwd = self._variables["PWD"]
        if not shell.alive or not self._keep_shell:
            self._replace(shell)
        self._variables = dict(shell.variables)
        if moved_for_one_command:
            self._variables["PWD"] = cwd

    def _open(self) -> Shell:
        if self._shell is None:
            first = not self._variables
            cwd = self._first_cwd if first else self._variables["PWD"]
            shell = self._open_shell(cwd, self._state)
            if first and shell.cwd_failed:
                shell.close()
                raise EnvironmentStartError(
                    f"the working directory {cwd} cannot be entered there; create it, or set TERMINAL_CWD to one "
                    "that exists"
                )
            self._shell = shell
            self._variables = dict(shell.variables)
        return self._shell

    def _replace(self, shell: Shell) -> None:
        """End a shell, keeping the state that it leaves."""
        if shell.alive:
            shell.retire()
        shell.close()
        self._state = shell.state
        self._shell = None

    def close(self) -> None:
        """Close the shell without asking for its state: the one of its last report is kept."""
        if shell := self._shell:
            self._state = shell.state
            self._shell = None
            shell.close()
