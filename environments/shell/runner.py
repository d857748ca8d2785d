"""Running one request in one shell to its end, under its limit: the same for all commands of whatever kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from environments.call import Call
from environments.cancellation import current_scope
from environments.errors import EnvironmentLostError
from environments.log import logger
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE, CommandResult
from environments.shell.hearing import Ended
from environments.shell.lifecycle import Lifecycle
from environments.shell.output import CommandOutput
from environments.shell.request import Where
from environments.shell.running import RunningCommand
from environments.shell.shell import Shell
from environments.shell.stream import SkippingStream
from environments.shell.target_shells import TargetShells
from environments.sink import OutputSink

if TYPE_CHECKING:
    from environments.shell.process_tree import ProcessTree, Quarry
    from environments.shell.remains import ScopeRemains

EXIT_CODE_TIMEOUT = 5.0
"""Seconds for the exit code of a shell that ended without a word."""
SIGNAL_TIMEOUT = 0.3
"""Seconds for that of one that said 0: it says so too when a signal ended it, and what it left may hold its end up."""
ATTEMPTS = 3
"""How many shells are tried that have died while they were idle."""
SKIP_MARGIN = 256 * 1024
"""Bytes brought beyond what is kept of an output's end, for what the shell itself says there."""

log = logger(__name__)


class Sent(NamedTuple):
    """A request that a shell was sent."""

    shell: Shell
    marker: str
    """The value of its marker variable."""
    where: Where


class Outcome(NamedTuple):
    """What came of a request."""

    exit_code: int
    reason: str | None = None
    """Why it was ended by us, `timeout` or `interrupt`."""
    survivors: tuple[int, ...] = ()
    """The process ids of what could not be ended."""


class NotBegunError(EnvironmentLostError):
    """A shell had been killed before it began a request, and nothing of that was run."""

    def __init__(self) -> None:
        super().__init__("the shell that was to run the command had been killed from outside; nothing was run")


class Runner:
    """Runs requests.

    Args:
        shells: Where the shells come from.
        processes: Makes what finds and ends the processes of a quarry.
        life: Says whether everything is being ended.
        grace: Seconds between TERM and KILL.
        why_killed: Says which limit has ended a process, see `BaseEnvironment.why_killed`.
        limit: Bytes of output to keep of a call that does not say.
        has_no_process: Whether it is certain without a look in the target that no process has a marker.
    """

    def __init__(
        self,
        shells: TargetShells,
        processes: Callable[[Quarry], ProcessTree],
        life: Lifecycle,
        grace: float,
        why_killed: Callable[[], str | None],
        limit: int,
        has_no_process: Callable[[str], bool],
    ) -> None:
        self._shells = shells
        self._processes = processes
        self._life = life
        self._grace = grace
        self._why_killed = why_killed
        self._limit = limit
        self._has_no_process = has_no_process
        self._running: set[RunningCommand] = set()

    @property
    def busy(self) -> bool:
        """Whether a request runs."""
        return bool(self._running)

    def until_begun(self, run: Callable[[], CommandResult]) -> CommandResult:
        """Return what a request comes to, which goes to another shell where one had died while it was idle.

        Args:
            run: Takes a shell and runs it there. It raises NotBegunError if that shell was dead.

        Raises:
            EnvironmentLostError: All shells that were tried were.
        """
        for _ in range(ATTEMPTS):
            try:
                return run()
            except NotBegunError:
                continue
        raise self._shells.lost("its shells end as soon as they are opened")

    def abandon_all(self) -> None:
        """Take all requests for interrupted, as everything is about to be ended."""
        for running in list(self._running):
            running.abandon()

    def remains(self) -> ScopeRemains | None:
        """Return what notes the remains of the scope that the current thread works in, if a script's calls do so."""
        scope = current_scope()
        return scope.remains(self, self._new_remains) if scope and not scope.is_trusted else None

    def _new_remains(self) -> ScopeRemains:
        from environments.shell.remains import ScopeRemains  # most commands are no script's

        return ScopeRemains(self._processes, self._life.postpone, self._has_no_process)

    def command(self, sent: Sent, on_cancel: Callable[[], None] | None, grace: float | None = None) -> RunningCommand:
        """Return the means to end a request."""
        processes = partial(self._processes_of, sent, time.monotonic())
        return RunningCommand(sent.shell, processes, self._grace if grace is None else grace, on_cancel)

    def _processes_of(self, sent: Sent, began: float) -> ProcessTree:
        from environments.shell.process_tree import Quarry  # most commands end by themselves

        shell, ends_shell = sent.shell, sent.where.ends_shell
        quarry = Quarry(
            shell.marker if ends_shell else sent.marker,
            type(shell.dialect),
            shell.pid,
            wakes_shell=sent.where is Where.MAIN,
            ends_shell=ends_shell,
            began=began,
        )
        return self._processes(quarry)

    def run(
        self,
        sent: Sent,
        output: OutputSink,
        timeout: float,
        announce: Callable[[RunningCommand | None], None] | None = None,
        interrupt: threading.Event | None = None,
    ) -> Outcome:
        """Read a request to its end.

        Args:
            sent: The request.
            output: Takes what it prints.
            timeout: Seconds until it is ended; infinite for no limit.
            announce: Told of the means to end it, and of None when it has ended.
            interrupt: Ends it when it is set.

        Raises:
            EnvironmentLostError: The target went away while it ran.
        """
        running = self.command(sent, output.freeze)
        self._running.add(running)
        if not self._life.is_open:  # everything was taken for interrupted just before
            running.abandon()
        try:
            if announce:
                announce(running)
            ended = running.read_to_end(output, timeout, interrupt)
        finally:
            if announce:
                announce(None)
            self._running.discard(running)
        return self.outcome(sent, running, ended)

    def outcome(self, sent: Sent, running: RunningCommand, ended: Ended) -> Outcome:
        """Say what came of a request that has ended. Raises as `run` does."""
        if running.reason in ("timeout", "interrupt"):
            if running.failure and self._life.is_open:
                known = isinstance(running.failure, EnvironmentLostError)
                raise running.failure if known else self._lost(sent.shell, str(running.failure))
            code = TIMEOUT_EXIT_CODE if running.reason == "timeout" else INTERRUPT_EXIT_CODE
            if running.survivors:
                log.warning("%s processes of a command could not be ended: %s", *_listed(running.survivors))
            return Outcome(code, running.reason, running.survivors)
        if ended.exit_code is None:
            return Outcome(self._code_of_silent(sent, running), None, running.survivors)
        if ended.exit_code == 0 and sent.shell.stream_ended:
            return Outcome(sent.shell.stream.exit_code(SIGNAL_TIMEOUT) or 0)
        return Outcome(ended.exit_code)

    def _code_of_silent(self, sent: Sent, running: RunningCommand) -> int:
        """Return the exit code of a shell that ended without a word."""
        shell = sent.shell
        code = shell.stream.exit_code(EXIT_CODE_TIMEOUT)
        loss = self._shells.why_lost()
        if code is None or loss:
            raise self._lost(shell, loss)
        if not shell.has_begun:
            raise NotBegunError
        # Had it been the command itself, nothing of it would be left.
        if code == KILLED_EXIT_CODE and running.end_orphans():
            raise EnvironmentLostError(
                "the shell that ran the command was killed from outside. What the command had done by then is done, "
                "its other processes were ended, and it was not run again"
            )
        return code

    def _lost(self, shell: Shell, why: str | None) -> EnvironmentLostError:
        return self._shells.lost(why, self._shells.generation_of(shell))

    def result(
        self,
        sent: Sent,
        call: Call,
        cwd: str | None = None,
        announce: Callable[[RunningCommand | None], None] | None = None,
    ) -> CommandResult:
        """Run the request of a call, and return all that came of it.

        Args:
            sent: The request.
            call: What it was made of.
            cwd: Where it ran; None is where the shell is behind it.
            announce: See `run`.

        Raises:
            EnvironmentLostError: As `run` does, with the output so far.
        """
        began = time.monotonic()
        limit = call.max_output_bytes or self._limit
        output = CommandOutput(limit, call.separate, call.on_output, binary=call.binary)
        shell = sent.shell
        skipping = _skipping_stream(shell) if shell.lags and call.on_output is None else None
        try:
            if skipping:  # the middle of a large output, which nobody wants to see
                skipping.keep_ends(limit // 2 + SKIP_MARGIN, output.skip)
            outcome = self.run(sent, output, call.timeout, announce, call.interrupt)
        except EnvironmentLostError as error:
            error.output = output.stdout.text().text
            raise
        finally:
            if skipping:
                skipping.keep_all()
        if not call.is_own and (remains := self.remains()):
            remains.add_command(shell, sent.marker)
        output.finish()
        out = output.stdout.text(call.binary)
        err = output.stderr.text(call.binary) if output.stderr else None
        return CommandResult(
            out.text,
            outcome.exit_code,
            stderr=err.text if err else None,
            output_bytes=out.data,
            stderr_bytes=err.data if err else None,
            timed_out=outcome.reason == "timeout",
            interrupted=outcome.reason == "interrupt",
            cwd=sent.shell.variables.get("PWD", "") if cwd is None else cwd,
            duration_seconds=time.monotonic() - began,
            omitted_bytes=out.omitted_bytes + (err.omitted_bytes if err else 0),
            omitted_at=out.omitted_at,
            survivors=outcome.survivors,
            note=self._why_killed() if outcome.exit_code == KILLED_EXIT_CODE and not outcome.reason else None,
        )


def _skipping_stream(shell: Shell) -> SkippingStream | None:
    return shell.stream if isinstance(shell.stream, SkippingStream) else None


def _listed(survivors: tuple[int, ...]) -> tuple[int, str]:
    listed = ", ".join(map(str, survivors[:20]))
    return len(survivors), f"{listed}, ..." if len(survivors) > 20 else listed
