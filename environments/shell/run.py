"""Run one command in one shell: the wait, the time-out, the interrupt, and the end of its process tree."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from environments.cancellation import current_scope
from environments.errors import EnvironmentLostError, TerminalError
from environments.log import logger
from environments.loop import current, done_within, shielded, spawn
from environments.output import Sink
from environments.result import INTERRUPT_EXIT_CODE, KILLED_EXIT_CODE, TIMEOUT_EXIT_CODE
from environments.shell.dialect.base import ShellRequest, Where
from environments.shell.output import Outcome, Output
from environments.shell.shell import ANSWER_LIMIT, Ended, Shell, State

if TYPE_CHECKING:
    import threading

    from environments.shell.kill import ProcessTree
    from environments.shell.pool import Control

BEGIN_LIMIT = 2.0
"""Seconds for a shell to begin a command before SIGCONT is sent, and again before the shell is killed and replaced."""
LEAVE_LIMIT = 2.0
"""Seconds for a shell to leave a command without any process left, before the shell itself is killed."""
EXIT_LIMIT = 5.0
"""Seconds for the exit code of a shell that ended without a message."""
SIGNAL_LIMIT = 0.3
"""Seconds for the exit code of a shell that announced 0: a shell ended by a signal announces 0 too, and a leftover
process may delay its end."""
SKIP_MARGIN = 256 * 1024
"""Bytes transferred beyond the kept end of an output, for the shell's own messages there."""
INTERRUPT_POLL = 0.05
"""Seconds between two checks of an interrupt event."""

log = logger(__name__)


class NotBegunError(EnvironmentLostError):
    """A shell ended before it began a command. No part of the command was run."""

    def __init__(self) -> None:
        super().__init__("the shell that was to run the command had been killed from outside; nothing was run")


class Running:
    """A request run by a shell.

    Args:
        shell: The shell.
        request: The request.
        sink: Receives the output.
        grace: Seconds between TERM and KILL.
        control: Ends the command's processes.

    Raises:
        BrokenPipeError: The shell is gone, and has received no complete request.
    """

    def __init__(self, shell: Shell, request: ShellRequest, sink: Sink, grace: float, control: Control) -> None:
        self.shell, self.where, self.grace = shell, request.where, grace
        self.ended: Ended | None = None
        self.reason: str | None = None
        """The reason for the end, `timeout` or `interrupt`; None while the command is not being ended."""
        self.survivors: tuple[int, ...] = ()
        self.brand: str | None = None
        """The brand set on its processes as a resource limit, see `dialect.commands.branding`."""
        self._sink, self._control = sink, control
        self._is_abandoned = self._is_late = False
        self._thread = current()
        self._loop = self._thread.loop
        self._woken: asyncio.Future[None] = self._loop.create_future()
        self._over: asyncio.Event | None = None
        self._ending_task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._poll: asyncio.TimerHandle | None = None
        self.began = time.monotonic()
        self.marker = shell.send(request, sink, self._end)

    def _end(self, ended: Ended) -> None:
        self.ended = ended
        if self._over:
            self._over.set()
        self._wake()

    def _wake(self) -> None:
        if not self._woken.done():
            self._woken.set_result(None)

    def interrupt(self, reason: str = "interrupt") -> None:
        """End the command. Without effect if the command has ended or is being ended."""
        if self.ended is None and self.reason is None:
            self.reason = reason
            self._wake()

    def abandon(self) -> None:
        """Mark the command as interrupted, because the whole environment is being ended."""
        if self.ended is None and self.reason is None:
            self.reason, self._is_abandoned = "interrupt", True

    async def wait(self, limit: float, event: threading.Event | None = None) -> Ended:
        """Wait for the end. End the command on a time-out, an interrupt, or the cancellation of this wait.

        The time-out of a command that begins late counts from its beginning.

        Args:
            limit: Seconds; infinite for no limit.
            event: Interrupts the command when set.

        Raises:
            TerminalError: The command could not be ended, or did not begin.
        """
        looks = self._thread.timer(BEGIN_LIMIT)
        if limit > BEGIN_LIMIT:
            looks.schedule(self, partial(self._check_time, limit, BEGIN_LIMIT))
        else:
            self._timer = self._loop.call_later(max(0.0, limit), self._check_time, limit, limit)
        if event:
            self._poll_event(event)
        scope = current_scope()
        try:
            with scope.calling(lambda: self._thread.soon(self.interrupt)) if scope else nullcontext():
                await self._woken
                if self._is_late and self.ended is None and self.reason is None:
                    await self._wait_late(limit)
            if self.reason:
                await shielded(self._start_ending())
        except asyncio.CancelledError:
            await self._end_for_cancelled_caller()
            raise
        finally:
            looks.cancel(self)
            if self._timer:
                self._timer.cancel()
            if self._poll:
                self._poll.cancel()
        return self.ended or Ended(None)

    def _check_time(self, limit: float, waited: float) -> None:
        if not self.shell.has_read_request():
            self._is_late = True
            self._wake()
        elif waited >= limit:
            self.interrupt("timeout")
        elif limit < UNLIMITED:
            self._timer = self._loop.call_later(limit - waited, self.interrupt, "timeout")

    async def _wait_late(self, limit: float) -> None:
        """Have the command begin, and wait for its end or for a reason to end it."""
        self._woken = self._loop.create_future()
        await self._ensure_begun()
        if not self._woken.done():
            if limit < UNLIMITED:
                self._timer = self._loop.call_later(max(0.0, limit), self.interrupt, "timeout")
            await self._woken

    async def _ensure_begun(self) -> None:
        """Continue a possibly stopped shell with SIGCONT. Kill a shell blocked by anything else before it begins.

        Raises:
            EnvironmentLostError: The shell could not be killed.
        """
        shell = self.shell
        if await self._begins_within(self.began + BEGIN_LIMIT - time.monotonic()):
            return
        log.debug("shell %d has not begun the command, and is sent SIGCONT", shell.pid)
        await self._control.resume_shell(shell)
        if await self._begins_within(ANSWER_LIMIT if shell.lags else BEGIN_LIMIT):
            return
        log.debug("shell %d does not begin the command, and is killed", shell.pid)
        await self._control.signal("KILL", shell.pid)
        if not await done_within(self._woken, LEAVE_LIMIT):
            raise self._control.shells.lost(await self._control.shells.why_lost(), shell)

    async def _begins_within(self, seconds: float) -> bool:
        """Return True if the command begins, or has ended, within `seconds` of the last byte read by the shell."""
        shell, now = self.shell, self._loop.time
        unread, deadline = shell.stream.unread(), now() + seconds
        while not (self._woken.done() or shell.has_read_request()):
            if now() >= deadline:
                return False
            await done_within(self._woken, INTERRUPT_POLL)
            if (left := shell.stream.unread()) != unread:
                unread, deadline = left, now() + seconds
        return True

    def _poll_event(self, event: threading.Event) -> None:
        if event.is_set():
            self.interrupt()
        elif self.ended is None:
            self._poll = self._loop.call_later(INTERRUPT_POLL, self._poll_event, event)

    async def _end_for_cancelled_caller(self) -> None:
        """End the command for a cancelled caller. The loop completes this even after a second cancellation."""
        if self.ended is None:
            self.reason = self.reason or "interrupt"
        if self.reason:
            try:
                await shielded(self._start_ending())
            except TerminalError as error:
                log.debug("an abandoned command could not be ended: %s", error)

    def _start_ending(self) -> asyncio.Task[None]:
        """Start the task that ends the command, unless started, and return the task.

        A cancelled wait does not cancel the task: processes still to be sent KILL would be left, and a shell given up
        half way reports no end to a second attempt.
        """
        self._ending_task = self._ending_task or spawn(self._end_processes(), may_fail=True)
        return self._ending_task

    async def _end_processes(self) -> None:
        """End all processes of the command, then the shell if it does not leave the command."""
        if self._is_abandoned or (self.ended is not None and not self.where.ends_shell):
            return
        self._over = asyncio.Event()
        if isinstance(self._sink, Output):
            self._sink.is_ending = True
        self.shell.stream.resume()  # a process may have to print before its end
        tree, was_killed = self.tree(), False
        try:
            self.survivors = await tree.end(self.grace)
            if not await self._is_over_within(LEAVE_LIMIT):
                was_killed = True
                await tree.kill_shell()
                await self._is_over_within(LEAVE_LIMIT)
        finally:
            if self.ended is None or was_killed or not self.shell.dialect.can_leave:
                self.shell.give_up()
            else:
                self.shell.sync_first = True  # the signal may reach the shell after the command's end
        if self.survivors:
            log.warning("%s processes of a command could not be ended: %s", *_listed(self.survivors))

    async def _is_over_within(self, limit: float) -> bool:
        assert self._over
        if self.ended is None:
            try:
                async with asyncio.timeout(limit):
                    await self._over.wait()
            except TimeoutError:
                pass
        return self.ended is not None

    def tree(self) -> ProcessTree:
        """Return a process tree that finds and ends the command's processes."""
        from environments.shell.kill import ProcessSelector  # most commands end by themselves

        shell, ends_shell = self.shell, self.where.ends_shell
        return self._control.tree(
            ProcessSelector(
                shell.marker if ends_shell else self.marker,
                type(shell.dialect),
                shell.pid,
                wakes_shell=self.where is Where.MAIN,
                ends_shell=ends_shell,
                began=self.began,
                brand=self.brand,
            )
        )

    async def exit_code(self, ended: Ended) -> int:
        """Return the exit code of a command that ended by itself.

        Raises:
            NotBegunError: The shell ended before the command began.
            EnvironmentLostError: The target is gone, or the shell was killed.
        """
        if ended.exit_code is None:
            return await self._code_without_message()
        if ended.exit_code == 0 and self.shell.state is State.ENDED:
            return await self.shell.stream.exit_code(SIGNAL_LIMIT) or 0
        return ended.exit_code

    async def _code_without_message(self) -> int:
        """Return the exit code of a shell that ended without a message."""
        shell, shells = self.shell, self._control.shells
        code = await shell.stream.exit_code(EXIT_LIMIT)
        loss = await shells.why_lost()
        if code is None or loss:
            raise shells.lost(loss, shell)
        if not shell.has_begun:
            raise NotBegunError
        # If the command had killed its own shell, no other process of the command would be left.
        if code == KILLED_EXIT_CODE and not self.where.ends_shell:
            tree = self.tree()
            if await tree.look():
                self.survivors = await tree.end(self.grace, running=False)
                raise EnvironmentLostError(
                    "the shell that ran the command was killed from outside. What the command had done by then is "
                    "done, its other processes were ended, and it was not run again"
                )
        return code


UNLIMITED = 1e8
"""Seconds from which on a limit counts as none."""


async def outcome_of(running: Running, output: Output, limit: float, event: threading.Event | None) -> Outcome:
    """Wait for a request, and return its outcome.

    Args:
        running: The request.
        output: The output.
        limit: The time-out in seconds.
        event: Interrupts the request when set.

    Raises:
        EnvironmentLostError: The target was lost during the command; carries the output so far.
        NotBegunError: The shell ended before the command began.
    """
    output.stream = stream = running.shell.stream
    skipper = stream.skipper if not output.has_callback else None
    if skipper:  # the middle of a large output never reaches a caller
        size = output.stdout.limit // 2 + SKIP_MARGIN
        skipper.keep_ends(size, output.skip)
    try:
        ended = await running.wait(limit, event)
        if reason := running.reason:
            code = TIMEOUT_EXIT_CODE if reason == "timeout" else INTERRUPT_EXIT_CODE
            outcome = Outcome(output, code, reason, running.survivors)
        else:
            outcome = Outcome(output, await running.exit_code(ended), None, running.survivors)
    except EnvironmentLostError as error:
        error.output = output.stdout.text().text
        raise
    finally:
        if skipper:
            skipper.keep_all()
    outcome.seconds = time.monotonic() - running.began
    return outcome


def _listed(survivors: tuple[int, ...]) -> tuple[int, str]:
    listed = ", ".join(map(str, survivors[:20]))
    return len(survivors), f"{listed}, ..." if len(survivors) > 20 else listed
