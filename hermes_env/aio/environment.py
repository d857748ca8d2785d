"""Environments, their sessions and processes, and pools of them, awaited on asyncio and on trio."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Unpack

from environments import (
    BaseEnvironment,
    CommandResult,
    EnvironmentSession,
    EnvironmentSettings,
    Pool,
    Process,
    create_environment,
)
from environments.cancellation import current_scope, ended_in_scope
from environments.files import TargetPath, check_codec, decoded_text, encoded_text
from environments.internal import Internal
from environments.loop import Call, current, done_within, in_worker, shielded, work_of
from environments.options import Command, CommandOptions, CommandText, StartOptions
from environments.process import GRACE, Background, checked_start
from environments.result import Capabilities
from environments.target import Target
from hermes_env.aio.calls import (
    Block,
    as_coroutine,
    awaitable,
    awaited,
    awaited_at_home,
    in_thread,
    is_observed,
    same,
)
from hermes_env.aio.streaming import Asked, Commands

if TYPE_CHECKING:
    from environments.pool import PoolStats

Hook = Callable[..., object]
"""A function as `create_environment` takes it, or the same as a coroutine function."""


class AsyncProcess:
    """A command that runs in the background, see `environments.Process`. `AsyncEnvironment.start` makes it.

    Args:
        process: The handle beneath.
    """

    def __init__(self, process: Process) -> None:
        self.sync = process
        """The handle beneath, for what is not awaited."""

    pid: int = same("pid")
    """The process id, in the target, of the shell that runs the command."""
    running: bool = same("running")
    """Whether the command has not ended."""

    read = as_coroutine(Process.read)
    expect = as_coroutine(Process.expect)
    close_stdin = as_coroutine(Process.close_stdin)
    resize = as_coroutine(Process.resize)
    wait = as_coroutine(Process.wait)
    kill = as_coroutine(Process.kill, to_end=True)

    async def poll(self) -> int | None:
        """Return the exit code, or None while the command runs, see `Process.poll`."""
        return self.sync.poll()

    async def write(self, data: str | bytes) -> None:
        """Send text or bytes to the command's standard input, or type them on its terminal.

        Cancelled, the command has one second to read its input. Then it is ended: how much of its input has arrived
        would not be known.

        Raises:
            BrokenPipeError: The command has ended or closed its input.
        """
        process = self.sync

        async def work(call: Call[None]) -> None:
            write = work_of(process.write)
            writing = asyncio.ensure_future(write(call, data) if write else in_worker(process.write, data))
            try:
                with ended_in_scope(lambda: current().soon(lambda: call.task and call.task.cancel())):
                    await shielded(writing)
            except asyncio.CancelledError:
                if not await done_within(writing, GRACE):
                    await in_worker(process.kill)

        await awaited(work)


class AsyncEnvironment(Commands):
    """A place where commands run, see `environments.BaseEnvironment`: the same names and arguments, awaited.

    What is cancelled, by a scope, a time limit or asyncio's own way, is ended in the target before the await returns.
    Leave the `async with` block, or await `cleanup`, and nothing stays behind. It belongs to no event loop: one after
    another may use it, and several tasks at once.

    Args:
        backend: As for `create_environment`.
        before_command: Decides on each command, as for `create_environment`. It and the next four may be coroutine
            functions, which are awaited on the loop of the task that awaits the call.
        before_script: Decides on each script.
        before_tool_call: Decides on each tool call of a script.
        approve: Answers where a hook or a rule asks.
        on_progress: Told how far a start or a transfer is.
        settings: As for `create_environment`.

    Raises:
        SettingsError: As `create_environment` does, and all its other errors.
    """

    def __init__(
        self,
        backend: str | None = None,
        *,
        before_command: Hook | None = None,
        before_script: Hook | None = None,
        before_tool_call: Hook | None = None,
        approve: Hook | None = None,
        on_progress: Hook | None = None,
        **settings: object,
    ) -> None:
        hooks = {
            "before_command": before_command,
            "before_script": before_script,
            "before_tool_call": before_tool_call,
            "approve": approve,
            "on_progress": on_progress,
        }
        given = {name: awaited_at_home(hook) for name, hook in hooks.items() if hook}
        self.sync: BaseEnvironment = create_environment(backend, **given, **settings)
        """The environment beneath, for what is not awaited."""

    @classmethod
    def of(cls, env: BaseEnvironment) -> AsyncEnvironment:
        """Return an environment that there is, to be awaited. Both may be used side by side."""
        made = cls.__new__(cls)
        made.sync = env
        return made

    backend: str = same("backend")
    """The name the backend is registered under."""
    settings: EnvironmentSettings = same("settings")
    """The settings that it was made with."""
    busy: bool = same("busy")
    """Whether a command or a background process runs."""
    idle_seconds: float = same("idle_seconds")
    """How long nothing has used the environment; 0 while a command runs in it."""
    touch: Callable[[], None] = same("touch")
    """Note that the environment is in use, so that it does not count as idle."""
    capabilities: Awaitable[Capabilities] = awaitable("capabilities")
    """What this backend can do here, see `BaseEnvironment.capabilities`: `await env.capabilities`."""
    cwd: Awaitable[str] = awaitable("cwd")
    """The session's working directory, see `BaseEnvironment.cwd`: `await env.cwd`."""
    target: Awaitable[Target] = awaitable("target")
    """What and where the target is, see `BaseEnvironment.target`: `await env.target`."""

    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        env = self.sync
        return Asked(env, env._in_session(command, **options), "session", env.internal.run_in_session)

    async def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, see `BaseEnvironment.execute_oneshot`."""
        env = self.sync
        return await Asked(env, env._beside(command, **options), "oneshot", env.internal.run_beside).result()

    async def execute_own(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do the same for a command of a hook, about which nobody is asked, see `BaseEnvironment.internal`."""
        env = self.sync
        call = env._beside(command, **options)._replace(is_own=True)
        return await Asked(env, call, None, env.internal.run_beside).result()

    async def start(self, command: CommandText, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command in the background and return a handle to it, see `BaseEnvironment.start`.

        Cancelled, the command is ended. Once there is a handle, that one ends it.
        """
        env = self.sync
        if not (env.gate.asks_about_commands or is_observed(env) or current_scope()):
            return await self._started(*checked_start(command, **options))
        start = partial(env.start, command, **options)
        return AsyncProcess(await in_thread(start, "commands", undo=lambda process: process.kill()))

    async def start_own(self, command: str, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Do the same for a command of a hook, see `BaseEnvironment.internal`."""
        call, background = checked_start(command, **options)
        return await self._started(call._replace(is_own=True), background)

    async def _started(self, command: Command, background: Background) -> AsyncProcess:
        self.touch()
        run = self.sync.internal.run_in_background
        return AsyncProcess(await awaited(lambda call: run(call, command, background)))

    address = as_coroutine(BaseEnvironment.address)
    interrupt = as_coroutine(BaseEnvironment.interrupt, to_end=True)
    session_variable = as_coroutine(Internal.variable, path="sync.internal")
    scratch_directory = as_coroutine(Internal.scratch_directory, path="sync.internal")
    prepare = as_coroutine(BaseEnvironment.prepare)
    set_network = as_coroutine(BaseEnvironment.set_network)
    cleanup = _end = as_coroutine(BaseEnvironment.cleanup, to_end=True)

    async def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> AsyncSession:
        """Return the session of a name, which is opened unless it is open, see `BaseEnvironment.session`."""
        return AsyncSession(self.sync.session(name, cwd=cwd, user=user))

    snapshot = as_coroutine(BaseEnvironment.snapshot)
    _forked = as_coroutine(BaseEnvironment.fork)

    async def fork(self) -> AsyncEnvironment:
        """Return an environment on a copy of the target, see `BaseEnvironment.fork`."""
        return AsyncEnvironment.of(await self._forked())

    # Files. Cancelled, a transfer ends in the middle and leaves no part of a file.

    write_bytes = as_coroutine(BaseEnvironment.write_bytes)
    read_bytes = as_coroutine(BaseEnvironment.read_bytes)

    async def write_text(self, path: TargetPath, text: str, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Write text to a file in the target, see `BaseEnvironment.write_text`."""
        await self.write_bytes(path, encoded_text(text, encoding, errors))

    async def read_text(
        self, path: TargetPath, encoding: str = "utf-8", errors: str = "strict", limit: int | None = None
    ) -> str:
        """Return the text of a regular file of the target, see `BaseEnvironment.read_text`."""
        check_codec(encoding, errors)
        return decoded_text(await self.read_bytes(path, limit), path, encoding, errors, limit)

    put_file = as_coroutine(BaseEnvironment.put_file)
    get_file = as_coroutine(BaseEnvironment.get_file)
    put_dir = as_coroutine(BaseEnvironment.put_dir)
    get_dir = as_coroutine(BaseEnvironment.get_dir)
    stat = as_coroutine(BaseEnvironment.stat)
    list_dir = as_coroutine(BaseEnvironment.list_dir)
    mkdir = as_coroutine(BaseEnvironment.mkdir)
    remove = as_coroutine(BaseEnvironment.remove)
    exists = as_coroutine(BaseEnvironment.exists)


class AsyncSession(Commands):
    """A session beside that of `execute`, see `environments.EnvironmentSession`. `AsyncEnvironment.session` makes it.

    Args:
        session: The session beneath.
    """

    def __init__(self, session: EnvironmentSession) -> None:
        self.sync = session
        """The session beneath, for what is not awaited."""

    name: str = same("name")
    """The name that it was asked for by."""
    user: str | None = same("user")
    """The user that its commands run as; None is the target's own."""
    closed: bool = same("closed")
    """Whether `close` was called."""
    busy: bool = same("busy")
    """Whether a command runs in it."""
    cwd: Awaitable[str] = awaitable("cwd")
    """Its working directory, see `EnvironmentSession.cwd`: `await session.cwd`."""

    interrupt = as_coroutine(EnvironmentSession.interrupt, to_end=True)
    close = _end = as_coroutine(EnvironmentSession.close, to_end=True)

    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        session = self.sync
        return Asked(session._host, session._checked(command, **options), "session", session._run, session)


class AsyncPool(Block):
    """Lends environments that are ready, see `environments.Pool`: the same arguments, awaited.

    Leave the `async with` block, or await `close`, and nothing stays behind. The arguments, and the errors, are those
    of `Pool`.
    """

    def __init__(
        self,
        settings: str | EnvironmentSettings | Mapping[str, object] | None = None,
        min: int = 0,
        max: int = 8,
        idle: float = 300.0,
        uses: int = 1,
        *,
        start_rate: float | None = None,
        max_starting: int | None = None,
    ) -> None:
        self.sync = Pool(settings, min, max, idle, uses, start_rate=start_rate, max_starting=max_starting)
        """The pool beneath."""

    stats: Callable[[], PoolStats] = same("stats")
    """Return how many environments there are, and what they do."""
    close = _end = as_coroutine(Pool.close, to_end=True)
    """Remove all environments, see `Pool.close`, also when the task is cancelled meanwhile."""

    @contextlib.asynccontextmanager
    async def environment(self, timeout: float | None = None) -> AsyncIterator[AsyncEnvironment]:
        """Lend an environment for the block, see `Pool.environment`. A task that is cancelled waits no longer.

        Args:
            timeout: Seconds to wait for one; None is for as long as it takes.

        Raises:
            EnvironmentStartError: One could not be started; a `StartStoppedError` if it took too long.
            TerminalError: The pool was closed.
        """
        pool = self.sync
        lease = pool._new_lease(timeout)
        try:
            env = await awaited(lambda _: pool._lend(lease))
            lease.has_begun = True
            yield AsyncEnvironment.of(env)
        finally:
            pool._release(lease)
