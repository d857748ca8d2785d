"""What runs beside the session: one-shot commands, and processes in the background."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from environments.call import Call
from environments.errors import CallCancelledError, EnvironmentLostError, StartStoppedError
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.exported import Exported
from environments.shell.lifecycle import Lifecycle
from environments.shell.pool import ShellPool
from environments.shell.request import Request, Where
from environments.shell.requests import Requests
from environments.shell.runner import Runner, Sent
from environments.shell.running import RunningCommand
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells
from environments.sink import OutputSink

if TYPE_CHECKING:
    from environments.process import Background
    from environments.shell.process import ShellProcess
    from environments.terminal import Terminal

_WHERE = {"open": Where.LAST, "none": Where.SUBSHELL, "consumed": Where.ATTACHED}
_Result = TypeVar("_Result")


class Origin(NamedTuple):
    """A session, as far as commands beside it begin with what that has."""

    variable: Callable[[str], str]
    """Tells `PWD`, which other directories are taken from."""
    exported: Callable[[], Exported]
    """Tells what it has exported."""


class Beside:
    """Runs commands in shells that are not the session's.

    Args:
        shells: Opens shells.
        pool: Lends them.
        requests: Makes a request of a call.
        runner: Runs a request in a shell.
        life: Says who may use a process that was started.
        settings: How much of an output is kept.
        origin: The session that they are beside of.
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
        origin: Origin,
        variables: Callable[[], Mapping[str, str]],
    ) -> None:
        self._shells = shells
        self._pool = pool
        self._requests = requests
        self._runner = runner
        self._life = life
        self._limit = settings.max_output_bytes
        self._origin = origin
        self._variables = variables
        self._lock = threading.Lock()
        self._processes: set[ShellProcess] = set()

    @property
    def busy(self) -> bool:
        """Whether a process runs in the background."""
        return any(process.running for process in self._all())

    def run(
        self,
        call: Call,
        origin: Origin | None = None,
        announce: Callable[[RunningCommand | None], None] | None = None,
    ) -> CommandResult:
        """Run a command, see `BaseEnvironment.execute_oneshot`.

        Args:
            call: The command.
            origin: The session that it is beside of, if it is another.
            announce: See `Runner.run`.
        """
        origin, cwd = origin or self._origin, ""
        try:
            if call.is_cancelled:
                return CommandResult.never_ran(origin.variable("PWD"))
            there = self._there(call, origin)
            cwd = self._directory(there)
            run = partial(self._runner.result, call=call, cwd=cwd, announce=announce)
            return self._runner.until_begun(lambda: self._lent(there, call.separate, run))
        except (CallCancelledError, StartStoppedError):  # while it waited for a shell, or was on its way to one
            if not call.is_cancelled:
                raise
            return CommandResult.never_ran(cwd)

    def _there(self, call: Call, origin: Origin) -> Call:
        """Return a call for a shell that is not the session's, with the variables that are handed on to it."""
        there = self._requests.beside(call, origin.variable("PWD"))
        exported = origin.exported() if call.session_env else Exported()
        if exported.known:
            from environments.shell.target_user import IDENTITY  # most commands run as the target's own user

            kept = {*call.env, *(IDENTITY if call.user else ())}
            command = exported.taken_up_by(call.command, kept)
            return there._replace(command=command, env={**exported.due, **call.env})
        variables = self._variables()
        return there._replace(env={**variables, **call.env}) if variables else there

    def _directory(self, call: Call) -> str:
        return self._requests.directory(call.cwd or "")

    def run_into(self, call: Call, sink: OutputSink) -> int:
        """Run a command without a limit of time or of output, and return its exit code.

        Raises:
            EnvironmentLostError: The target went away while it ran.
        """
        there = self._there(call, self._origin)
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
        from environments.shell.process import ShellProcess  # most commands are waited for
        from environments.shell.unread import UnreadOutput

        sink = background.sink or UnreadOutput(self._limit)
        where = Where.LAST_ON_TERMINAL if background.terminal else _WHERE[background.stdin]
        there = self._there(call, self._origin)
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
        process = ShellProcess(sent, running, sink, self._runner, self._life, release, background.tap)
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
