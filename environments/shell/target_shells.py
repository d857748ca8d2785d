"""The shells that run in a target: how they are opened, and how other than the session's are used."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

from environments.errors import EnvironmentLostError, EnvironmentStartError
from environments.result import CommandResult
from environments.shell.dialect import Dialect, boot_argv
from environments.shell.output import CommandOutput
from environments.shell.pool import IDLE_LIMIT, ShellPool
from environments.shell.shell import Request, Shell, Where
from environments.shell.stream import StreamOpener, Terminal

CONTROL_TIMEOUT = 10.0
"""Seconds a command of our own may take: what does not answer by then is lost."""
CONTROL_OUTPUT = 10_000_000
"""Bytes kept of what a command of our own prints."""


class TargetShells:
    """Opens shells in a target, and keeps a pool of those that are not the session's.

    Args:
        owner: What the marker of all processes in these shells begins with.
        open_stream: Starts a process in the target.
        why_lost: Says why the target is gone, or None while it is there.
        lost: Notes that the target is lost, and returns the error to raise.
        limit: How many shells the target allows at once, beside the session's.
    """

    def __init__(
        self,
        owner: str,
        open_stream: StreamOpener,
        why_lost: Callable[[], str | None],
        lost: Callable[[str], EnvironmentLostError],
        limit: int | None,
    ) -> None:
        self._owner = owner
        self._open_stream = open_stream
        self._why_lost = why_lost
        self._lost = lost
        self._numbers = itertools.count(1)
        self.dialect: Dialect | None = None
        """The kind of shell the target has, once one has been opened."""
        self.pool = ShellPool(self.open, limit)

    def open(self, cwd: str | None = None, restore: str = "") -> Shell:
        """Open a shell in a directory and with the state of an earlier one.

        Raises:
            EnvironmentStartError: It could not be opened.
            EnvironmentLostError: The same, because the target is gone.
        """
        marker = self._next_marker()
        try:
            stream = self._open_stream(boot_argv(marker))
            shell = Shell(stream, marker, cwd=cwd, restore=restore, known=self.dialect)
        except EnvironmentStartError:
            if loss := self._why_lost():
                raise self._lost(loss) from None
            raise
        self.dialect = shell.dialect
        return shell

    def open_on(self, terminal: Terminal) -> Shell:
        """Open a shell on a terminal of its own. Raises as `open` does, and UnsupportedError without terminals."""
        marker = self._next_marker()
        return Shell(self._open_stream(boot_argv(marker, terminal=True), terminal), marker, on_terminal=True)

    def _next_marker(self) -> str:
        return f"{self._owner}/{next(self._numbers)}/"

    def send(self, request: Request, urgent: bool = False) -> tuple[Shell, str]:
        """Send a request to a shell of the pool, which is to be given back; returns it and the request's marker.

        Args:
            request: What to run.
            urgent: Whether to pass by the target's limit.

        Raises:
            EnvironmentLostError: No shell took it, so it was not run.
        """
        for _ in range(IDLE_LIMIT + 1):
            shell = self.pool.take(urgent)
            try:
                return shell, shell.send(request)
            except BrokenPipeError:  # it died while it was idle, and got nothing of the request
                shell.close()
                self.pool.give_back(shell)
            except BaseException:
                self.pool.give_back(shell)
                raise
        raise self._lost(self._why_lost() or "no shell of it could be reached")

    @contextlib.contextmanager
    def sent(self, request: Request, urgent: bool = False) -> Iterator[tuple[Shell, str]]:
        """Send a request as `send` does, and give the shell back after the block."""
        shell, marker = self.send(request, urgent)
        try:
            yield shell, marker
        finally:
            self.pool.give_back(shell)

    def run_control(self, text: str) -> CommandResult:
        """Run a command of our own, without the limits that hold for others'.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        output = CommandOutput(CONTROL_OUTPUT, separate=False)
        with self.sent(Request(text, Where.SUBSHELL), urgent=True) as (shell, _):
            ended = shell.receive(output, time.monotonic() + CONTROL_TIMEOUT)
            if ended.exit_code is None:
                shell.close()
                raise self._lost(self._why_lost() or f"it did not answer for {CONTROL_TIMEOUT:.0f} s")
        return CommandResult(output.stdout.text().text, ended.exit_code)
