"""One-shot commands: each runs beside the session, in a shell lent by the pool."""

from __future__ import annotations

import asyncio
import contextlib
import math
import posixpath
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from environments.errors import CallCancelledError, StartStoppedError
from environments.loop import OutputQueue, shielded, spawn
from environments.options import CheckedCommand
from environments.process import GRACE
from environments.result import CommandResult
from environments.shell.dialect.base import Exported, Where
from environments.shell.lifecycle import weak_proxy
from environments.shell.output import Outcome, Output
from environments.shell.pool import ATTEMPTS, ShellPool, Shells
from environments.shell.run import NotBegunError, Running, outcome_of
from environments.shell.users import IDENTITY, TargetUser

if TYPE_CHECKING:
    from environments.output import Sink
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.shell import Ended
    from environments.shell.stream import Stream

T = TypeVar("T")
Write = Callable[[bytes], Coroutine[Any, Any, None]]
"""Sends a piece of input to a command, and waits for room for more (back-pressure)."""


class OneshotRunner:
    """Runs one-shot commands.

    Args:
        env: The environment.
        shells: The shells of the target.
    """

    def __init__(self, env: PersistentShellEnvironment, shells: Shells) -> None:
        self._env = weak_proxy(env)
        self._shells = shells
        self.running: set[Running] = set()
        """The running commands."""

    async def execute(
        self, command: CheckedCommand, user: TargetUser | None, pieces: OutputQueue | None = None
    ) -> Outcome | CommandResult:
        """Run a command, see `BaseEnvironment.execute_oneshot`.

        Args:
            command: The command.
            user: The user; None is the target's default user.
            pieces: Delivers the output to the caller's callback.
        """
        env, there = self._env, None
        try:
            if command.is_cancelled:
                return CommandResult.never_ran(await self._directory(command))
            there = await self.beside(command, user)
            pool = self._shells.control_of(user) if command.is_internal else self._shells.pool_of(user)
            output = Output(env.internal.output_limit(command), command.separate, pieces)

            async def wait(running: Running) -> tuple[Outcome, Running]:
                return await outcome_of(running, output, command.timeout, command.interrupt), running

            outcome, done = await self._run_with_retries(pool, there, user, lambda _: output, wait)
        except (CallCancelledError, StartStoppedError):  # raised during the wait for a shell
            if not command.is_cancelled:
                raise
            return CommandResult.never_ran(self._absolute(there.cwd or "") if there else "")
        await env.internal.complete(outcome, command, done)
        outcome.cwd = self._absolute(there.cwd or "")
        return outcome

    async def _run_with_retries(
        self,
        pool: ShellPool,
        there: CheckedCommand,
        user: TargetUser | None,
        sink_on: Callable[[Stream], Sink],
        wait: Callable[[Running], Awaitable[T]],
        where: Where = Where.SUBSHELL,
    ) -> T:
        """Send a command to a shell, and to another if the first ended before it began. Returns `wait`'s result."""
        for _ in range(ATTEMPTS + 2):
            try:
                async with pool.lease() as shell:
                    request = await self._env.internal.make_request(there, where, user=user)
                    sink = sink_on(shell.stream)
                    running = Running(shell, request, sink, GRACE, self._shells.control_of(user))
                    self.running.add(running)
                    try:
                        if not self._env.life.is_open:
                            running.interrupt()
                        return await wait(running)
                    finally:
                        self.running.discard(running)
            except (NotBegunError, BrokenPipeError):
                continue
        raise self._shells.lost(await self._shells.why_lost() or "its shells end as soon as they are opened")

    async def run_into(self, command: CheckedCommand, sink_on: Callable[[Stream], Sink]) -> int:
        """Run an internal command without limits of time or output, and return its exit code.

        Args:
            command: The command.
            sink_on: Returns the sink for a stream's output.

        Raises:
            EnvironmentLostError: The target was lost during the command.
            CallCancelledError: The scope was cancelled.
        """
        there = await self.beside(command, None)

        async def wait(running: Running) -> int:
            return await _code_of(running, await running.wait(math.inf))

        return await self._run_with_retries(self._shells.control, there, None, sink_on, wait)

    async def run_fed(
        self,
        command: CheckedCommand,
        user: TargetUser | None,
        sink: Sink,
        feed: Callable[[Write], Awaitable[object]],
        size: int | None,
    ) -> int:
        """Run an internal command with an input and without a time-out, and return its exit code.

        Args:
            command: The command.
            user: The user; None is the target's default user.
            sink: Receives the output.
            feed: Writes the input by a given function, which raises BrokenPipeError once the command has ended. On any
                other error of `feed`, the command is ended.
            size: The exact count of input bytes the command reads; None for a command that reads to the end of file.

        Raises:
            EnvironmentLostError: The target was lost during the command.
            CallCancelledError: The scope was cancelled.
        """
        there = await self.beside(command._replace(separate=False), user)
        where = Where.LAST if size is None else Where.ATTACHED

        async def wait(running: Running) -> int:
            shell, written = running.shell, 0
            ending = spawn(running.wait(math.inf))

            async def write(data: bytes) -> None:
                nonlocal written
                if ending.done():
                    raise BrokenPipeError("the command has ended")
                written += len(data)
                shell.stream.write(data)
                draining = spawn(shell.stream.drain())
                try:
                    await asyncio.wait((draining, ending), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    draining.cancel()

            code = -1
            try:
                await shell.wait_begun()
                with contextlib.suppress(BrokenPipeError):  # its exit code and its output give the reason
                    await feed(write)
                    if size is None:
                        shell.stream.close_write()
                code = await _code_of(running, await shielded(ending))
                return code
            finally:
                if not ending.done():
                    # A starting process may miss the signal. A process with complete input may succeed, and the shell
                    # then reads on: the end of file would end all processes, if the shell is a watchdog.
                    if size is None or written < size:
                        shell.stream.close_write()
                    running.interrupt()
                    await asyncio.wait((ending,))
                if code != 0:
                    shell.give_up()  # the command's input may be unread in front of the shell

        return await self._run_with_retries(self._shells.control_of(user), there, user, lambda _: sink, wait, where)

    # Options for a shell other than the session's.

    async def beside(self, command: CheckedCommand, user: TargetUser | None) -> CheckedCommand:
        """Return a command for a shell other than the session's: with its directory and variables."""
        env = self._env
        cwd = await self._directory(command)
        exported = await env.session_of_execute.exported() if command.session_env else Exported()
        if exported.is_known:
            kept = {*command.env, *(IDENTITY if user else ())}
            text = exported.taken_up_by(command.text, kept)
            return command._replace(text=text, cwd=cwd, env={**exported.due, **command.env})
        given = {} if command.is_internal else env.passthrough.all_values()
        return command._replace(cwd=cwd, env={**given, **command.env})

    async def _directory(self, command: CheckedCommand) -> str:
        """Return a command's directory: a relative one starts at the session's directory."""
        cwd = command.cwd
        if cwd and (cwd.startswith("/") or cwd == "~" or cwd.startswith("~/")):
            return cwd
        here = await self._env.session_of_execute.variable("PWD", sourced=not command.is_internal)
        return posixpath.join(here, cwd) if cwd else here

    def _absolute(self, cwd: str) -> str:
        return self._shells.home + cwd[1:] if cwd == "~" or cwd.startswith("~/") else cwd


async def _code_of(running: Running, ended: Ended) -> int:
    if running.reason:
        raise CallCancelledError("the scope was cancelled, and the command was ended")
    return await running.exit_code(ended)
