"""What runs beside the session: one-shot commands, and processes in the background."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from environments.call import Call
from environments.cancellation import current_scope
from environments.errors import EnvironmentLostError
from environments.process import Background
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.lifecycle import Lifecycle
from environments.shell.output import UnreadOutput
from environments.shell.pool import ShellPool
from environments.shell.process import ShellProcess
from environments.shell.request import Request, Where
from environments.shell.requests import Requests
from environments.shell.runner import Runner, Sent
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells
from environments.sink import OutputSink
from environments.terminal import Terminal

_WHERE = {"open": Where.LAST, "none": Where.SUBSHELL, "consumed": Where.ATTACHED}
_Result = TypeVar("_Result")


class Beside:
    """Runs commands in shells that are not the session's.

    Args:
        shells: Opens shells.
        pool: Lends them.
        requests: Makes a request of a call.
        runner: Runs a request in a shell.
        life: Says who may use a process that was started.
        settings: How much of an output is kept.
        session_variable: Tells `PWD`, which other directories are taken from.
        variables: Return those that each command gets along with its own.
    """

    def __init__(
        self,
        shells: TargetShells,
        pool: ShellPool,
        requests: Requests,
        runner: Runner,
        life: Lifecycle,
        settings: EnvironmentSettings,
        session_variable: Callable[[str], str],
        variables: Callable[[], Mapping[str, str]],
    ) -> None:
        self._shells = shells
        self._pool = pool
        self._requests = requests
        self._runner = runner
        self._life = life
        self._limit = settings.max_output_bytes
        self._session_variable = session_variable
        self._variables = variables
        self._lock = threading.Lock()
        self._processes: set[ShellProcess] = set()

    @property
    def busy(self) -> bool:
        """Whether a process runs in the background."""
        return any(process.running for process in self._all())

    def run(self, call: Call) -> CommandResult:
        """Run a command, see `BaseEnvironment.execute_oneshot`."""
        scope = current_scope()
        if scope and scope.cancelled:
            return CommandResult.never_ran(self._session_variable("PWD"))
        there = self._there(call)
        return self._lent(
            there, call.separate, lambda sent: self._runner.result(sent, call, self._limit, self._directory(there))
        )

    def _there(self, call: Call) -> Call:
        """Return a call for a shell that is not the session's, with the variables that are handed on to it."""
        there = self._requests.beside(call, self._session_variable("PWD"))
        variables = self._variables()
        return replace(there, env={**variables, **there.env}) if variables else there

    def _directory(self, call: Call) -> str:
        return self._requests.directory(call.cwd or "")

    def run_into(self, call: Call, sink: OutputSink) -> int:
        """Run a command without a limit of time or of output, and return its exit code.

        Raises:
            EnvironmentLostError: The target went away while it ran.
        """
        there = self._there(call)
        return self._lent(there, sink.separate, lambda sent: self._runner.run(sent, sink, math.inf)).exit_code

    def _lent(self, call: Call, separate: bool, run: Callable[[Sent], _Result]) -> _Result:
        """Send a call to a shell of the pool, and have it run there."""
        shell, marker = self._requests.sent(call, Where.SUBSHELL, self._pool.sent, separate)
        try:
            return run(Sent(shell, marker, Where.SUBSHELL))
        finally:
            self._pool.give_back(shell)

    def start(self, call: Call, background: Background) -> ShellProcess:
        """Start a command, see `BaseEnvironment.start`."""
        sink = background.sink or UnreadOutput(self._limit)
        where = Where.LAST_ON_TERMINAL if background.terminal else _WHERE[background.stdin]
        there = self._there(call)
        terminal = background.terminal
        release: Callable[[Shell], object] = self._shells.end if terminal else self._pool.give_back
        send = partial(self._sent_on, terminal) if terminal else self._pool.sent
        shell, marker = self._requests.sent(there, where, send, sink.separate)
        sent = Sent(shell, marker, where)
        try:
            if where.takes_input:
                shell.await_begin()
        except BaseException as error:
            shell.close()
            release(shell)
            if isinstance(error, BrokenPipeError):
                raise self._killed() from error
            raise
        running = self._runner.command(sent, None, background.grace)
        process = ShellProcess(sent, running, sink, self._runner, self._life, release)
        if not call.is_own and (remains := self._runner.remains()):
            remains.add_process(process)
        with self._lock:
            self._processes = {process, *(other for other in self._processes if other.running)}
        return process

    def _killed(self) -> EnvironmentLostError:
        if loss := self._shells.why_lost():
            return self._shells.lost(loss)
        return EnvironmentLostError(
            "the shell that was to run a background command was killed from outside. Whether the command had begun is "
            "not known, and it was not run again"
        )

    def _sent_on(self, terminal: Terminal, request: Request) -> tuple[Shell, str]:
        shell = self._shells.open_on(terminal)
        return shell, shell.send(request)

    def _all(self) -> list[ShellProcess]:
        with self._lock:
            return list(self._processes)

    def abandon_all(self) -> None:
        """Take all processes for interrupted, as everything is about to be ended."""
        for process in self._all():
            process.abandon()

    def join(self) -> None:
        """Wait until all of them have been read to their end."""
        for process in self._all():
            process.join()
