"""An environment that is awaited, on asyncio and on trio."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from environments import (
    BaseEnvironment,
    CallCancelledError,
    Capabilities,
    CommandResult,
    Process,
    Target,
    create_environment,
)
from environments.cancellation import check_scope
from environments.loop import work_of
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StdinMode
from environments.process import GRACE, Background
from environments.sink import OutputSink
from environments.terminal import Terminal
from hermes_env.aio.calls import as_coroutine, asked, awaited, awaited_at_home, in_thread, limiter_for
from hermes_env.aio.process import AsyncProcess
from hermes_env.aio.session import AsyncSession
from hermes_env.aio.streaming import Commands, Run, blocking, coroutine_of, ran

if TYPE_CHECKING:
    from environments import EnvironmentSettings
    from environments.progress import Progress

Hook = Callable[..., object]
"""A function as `create_environment` takes it, or the same as a coroutine function."""


def _while_awaited(tell: Callable[[Progress], object]) -> Callable[[Progress], None]:
    """Return a callback for progress that does nothing once the call is over: a start may go on for other calls."""

    def call(progress: Progress) -> None:
        with contextlib.suppress(CallCancelledError):
            tell(progress)

    return call


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
        if on_progress:
            given["on_progress"] = _while_awaited(given["on_progress"])
        self._env = create_environment(backend, **given, **settings)

    @classmethod
    def of(cls, env: BaseEnvironment) -> AsyncEnvironment:
        """Return an environment that there is, to be awaited. Both may be used side by side."""
        made = cls.__new__(cls)
        made._env = env
        return made

    @property
    def sync(self) -> BaseEnvironment:
        """The environment beneath, for what is not awaited."""
        return self._env

    @property
    def backend(self) -> str:
        """The name the backend is registered under."""
        return self._env.backend

    @property
    def settings(self) -> EnvironmentSettings:
        """The settings that it was made with."""
        return self._env.settings

    @property
    def busy(self) -> bool:
        """Whether a command or a background process runs."""
        return self._env.busy

    @property
    def idle_seconds(self) -> float:
        """How long nothing has used the environment; 0 while a command runs in it."""
        return self._env.idle_seconds

    def touch(self) -> None:
        """Note that the environment is in use, so that it does not count as idle."""
        self._env.touch()

    @property
    def capabilities(self) -> Awaitable[Capabilities]:
        """What this backend can do here, see `BaseEnvironment.capabilities`: `await env.capabilities`."""
        return asked(self._env, "capabilities")

    @property
    def cwd(self) -> Awaitable[str]:
        """The session's working directory, see `BaseEnvironment.cwd`: `await env.cwd`."""
        return asked(self._env, "cwd")

    @property
    def target(self) -> Awaitable[Target]:
        """What and where the target is, see `BaseEnvironment.target`: `await env.target`."""
        return asked(self._env, "target")

    # Commands.

    def _in_session(self) -> Run | None:
        return coroutine_of(self._env, self._env.run_in_session)

    async def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, see `BaseEnvironment.execute_oneshot`."""
        if not (run := coroutine_of(self._env, self._env.run_beside)):
            return await blocking(partial(self._env.execute_oneshot, command), options)
        call = self._env._call(command, **options)
        return await ran(call, self._work(run, call, keeps_cwd=False))

    async def execute_own(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do the same for a command of a hook, about which nobody is asked, see `BaseEnvironment.execute_own`."""
        if not (run := work_of(self._env.run_beside)):
            return await blocking(partial(self._env.execute_own, command), options)
        call = self._env._call(command, **options)._replace(is_own=True)
        return await ran(call, self._work(run, call, keeps_cwd=False))

    async def start(
        self,
        command: CommandText,
        *,
        pty: bool = False,
        rows: int = 24,
        columns: int = 80,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
        **options: Unpack[SharedOptions],
    ) -> AsyncProcess:
        """Start a command in the background and return a handle to it, see `BaseEnvironment.start`.

        Cancelled, the command is ended. Once there is a handle, that one ends it.
        """
        given: dict[str, Any] = {"stdin": stdin, "sink": sink, "grace": grace, **options}
        if not (run := coroutine_of(self._env, self._env.run_in_background)):
            return await _blocking(partial(self._env.start, command, pty=pty, rows=rows, columns=columns, **given))
        call = self._env._call(command, timeout=math.inf, **options)
        terminal = Terminal.checked(rows, columns) if pty else None
        return await _started(run, call, Background.checked(stdin, terminal, sink, grace))

    async def start_own(
        self,
        command: str,
        *,
        stdin: StdinMode = "open",
        sink: OutputSink | None = None,
        grace: float = GRACE,
        **options: Unpack[SharedOptions],
    ) -> AsyncProcess:
        """Do the same for a command of a hook, see `BaseEnvironment.start_own`."""
        if not (run := work_of(self._env.run_in_background)):
            return await _blocking(
                partial(self._env.start_own, command, stdin=stdin, sink=sink, grace=grace, **options)
            )
        call = self._env._call(command, timeout=math.inf, **options)._replace(is_own=True)
        return await _started(run, call, Background.checked(stdin, None, sink, grace))

    address = as_coroutine(BaseEnvironment.address, "commands")
    """Return where a TCP port of the target can be reached from this process, see `BaseEnvironment.address`."""
    interrupt = as_coroutine(BaseEnvironment.interrupt)
    """End the command that `execute` is running, or a target's start, see `BaseEnvironment.interrupt`."""
    session_variable = as_coroutine(BaseEnvironment.session_variable, "commands")
    """Return a variable as the session's last command left it, see `BaseEnvironment.session_variable`."""
    scratch_directory = as_coroutine(BaseEnvironment.scratch_directory, "commands")
    """Return our private directory in the target, see `BaseEnvironment.scratch_directory`."""
    prepare = as_coroutine(BaseEnvironment.prepare, "commands")
    """Start the target and open the session ahead of the first command, see `BaseEnvironment.prepare`."""
    cleanup = as_coroutine(BaseEnvironment.cleanup, to_end=True)
    """End everything this environment started, there and here, also in a task that is cancelled."""

    async def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> AsyncSession:
        """Return the session of a name, which is opened unless it is open, see `BaseEnvironment.session`."""
        return AsyncSession(self._env.session(name, cwd=cwd, user=user), self._env)

    # Files. Cancelled, a transfer ends in the middle and leaves no part of a file.

    write_bytes = as_coroutine(BaseEnvironment.write_bytes, "commands")
    """Write a file in the target, replacing it in one step, see `TargetFiles.write_bytes`."""
    read_bytes = as_coroutine(BaseEnvironment.read_bytes, "commands")
    """Return a file of the target, or its beginning, see `TargetFiles.read_bytes`."""
    put_file = as_coroutine(BaseEnvironment.put_file, "commands")
    """Copy a file from here to the target, see `TargetFiles.put_file`."""
    get_file = as_coroutine(BaseEnvironment.get_file, "commands")
    """Copy a file from the target to here, see `TargetFiles.get_file`."""
    put_dir = as_coroutine(BaseEnvironment.put_dir, "commands")
    """Copy a directory from here to the target, see `TargetFiles.put_dir`."""
    get_dir = as_coroutine(BaseEnvironment.get_dir, "commands")
    """Copy a directory from the target to here, see `TargetFiles.get_dir`."""
    stat = as_coroutine(BaseEnvironment.stat, "commands")
    """Return what is known of a path, see `TargetFiles.stat`."""
    list_dir = as_coroutine(BaseEnvironment.list_dir, "commands")
    """Return what is in a directory, see `TargetFiles.list_dir`."""
    mkdir = as_coroutine(BaseEnvironment.mkdir, "commands")
    """Make a directory, see `TargetFiles.mkdir`."""
    remove = as_coroutine(BaseEnvironment.remove, "commands")
    """Remove a file, a link or a directory, see `TargetFiles.remove`."""
    exists = as_coroutine(BaseEnvironment.exists, "commands")
    """Return whether there is something at a path, see `TargetFiles.exists`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cleanup()


async def _blocking(start: Callable[[], Process]) -> AsyncProcess:
    return AsyncProcess(await in_thread(start, limiter=limiter_for("commands"), undo=lambda process: process.kill()))


async def _started(run: Callable[..., Awaitable[Process]], command: Command, background: Background) -> AsyncProcess:
    check_scope()
    try:
        process = AsyncProcess(await awaited(lambda call: run(call, command, background)))
    except Exception:
        check_scope()
        raise
    if command.is_cancelled:
        if background.sink:
            background.sink.freeze()  # one that waits for what comes behind this call would wait for ever
        await process.kill()
        check_scope()
    return process
