"""An environment that is awaited, on asyncio and on trio."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from environments import BaseEnvironment, CallCancelledError, Capabilities, Process, Target, create_environment
from hermes_env.aio.calls import asked, awaited, ended, in_turn
from hermes_env.aio.files import AsyncFiles
from hermes_env.aio.home import awaited_at_home
from hermes_env.aio.pools import Work, limiter_for
from hermes_env.aio.process import AsyncProcess
from hermes_env.aio.session import AsyncSession
from hermes_env.aio.streams import Streams
from hermes_env.aio.threads import in_thread, to_its_end

if TYPE_CHECKING:
    from environments import EnvironmentSettings
    from environments.progress import Progress

_P = ParamSpec("_P")
_R = TypeVar("_R")
Hook = Callable[..., object]
"""A function as `create_environment` takes it, or the same as a coroutine function."""


def _while_awaited(tell: Callable[[Progress], object]) -> Callable[[Progress], None]:
    """Return what tells of progress as long as the call is awaited: a start may go on for other calls."""

    def call(progress: Progress) -> None:
        with contextlib.suppress(CallCancelledError):
            tell(progress)

    return call


def _started(
    start: Callable[Concatenate[Any, _P], Process],
) -> Callable[Concatenate[AsyncEnvironment, _P], Coroutine[Any, Any, AsyncProcess]]:
    """Return a method that starts a process. One that nobody gets, as the task was cancelled meanwhile, is ended."""

    @functools.wraps(start, updated=())
    async def call(self: AsyncEnvironment, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncProcess:
        made: list[Process] = []
        run = partial(getattr(self.sync, start.__name__), *args, **kwargs)
        try:
            await in_thread(lambda: made.append(run()), limiter=limiter_for(Work.COMMAND))
        except BaseException:
            for process in made:
                await to_its_end(process.kill, limiter=limiter_for(Work.CONTROL))
            raise
        return AsyncProcess(made[0])

    return call


class AsyncEnvironment(AsyncFiles, Streams):
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
        self._wrap(create_environment(backend, **given, **settings))

    @classmethod
    def of(cls, env: BaseEnvironment) -> AsyncEnvironment:
        """Return an environment that there is, to be awaited. Both may be used side by side."""
        made = cls.__new__(cls)
        made._wrap(env)
        return made

    def _wrap(self, env: BaseEnvironment) -> None:
        self._env = env
        self._is_ending = False

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
        """What it was made with."""
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
        return asked(lambda: self._env.capabilities)

    @property
    def cwd(self) -> Awaitable[str]:
        """The session's working directory, see `BaseEnvironment.cwd`: `await env.cwd`."""
        return asked(lambda: self._env.cwd)

    @property
    def target(self) -> Awaitable[Target]:
        """What and where the target is, see `BaseEnvironment.target`: `await env.target`."""
        return asked(lambda: self._env.target)

    execute = in_turn(BaseEnvironment.execute)
    """Run a command in the session and wait for it, see `BaseEnvironment.execute`.

    `on_output` may be a coroutine function, which is awaited on the loop; the command's output waits for it.
    """
    execute_oneshot = awaited(BaseEnvironment.execute_oneshot)
    """Run a command at once, beside whatever `execute` is doing, see `BaseEnvironment.execute_oneshot`."""
    execute_own = awaited(BaseEnvironment.execute_own)
    """Do the same for a command of a hook, about which nobody is asked, see `BaseEnvironment.execute_own`."""
    start = _started(BaseEnvironment.start)
    """Start a command in the background and return a handle to it, an `AsyncProcess`, see `BaseEnvironment.start`.

    Cancelled, the command is ended. Once there is a handle, that one ends it.
    """
    start_own = _started(BaseEnvironment.start_own)
    """Do the same for a command of a hook, see `BaseEnvironment.start_own`."""
    address = awaited(BaseEnvironment.address)
    """Return where a TCP port of the target can be reached from this process, see `BaseEnvironment.address`."""
    interrupt = awaited(BaseEnvironment.interrupt, Work.CONTROL)
    """End the command that `execute` is running, or a target's start, see `BaseEnvironment.interrupt`."""
    session_variable = awaited(BaseEnvironment.session_variable)
    """Return a variable as the session's last command left it, see `BaseEnvironment.session_variable`."""
    scratch_directory = awaited(BaseEnvironment.scratch_directory)
    """Return our private directory in the target, see `BaseEnvironment.scratch_directory`."""
    prepare = awaited(BaseEnvironment.prepare)
    """Start the target and open the session ahead of the first command, see `BaseEnvironment.prepare`."""
    _cleanup = ended(BaseEnvironment.cleanup)

    async def session(
        self, name: str, *, pty: bool = False, rows: int = 24, columns: int = 80, cwd: str | None = None
    ) -> AsyncSession:
        """Return the session of a name, which is opened unless it is open, see `BaseEnvironment.session`."""
        call = partial(self._env.session, name, pty=pty, rows=rows, columns=columns, cwd=cwd)
        return AsyncSession(await asked(call), self._env.settings.timeout)

    async def cleanup(self) -> None:
        """End everything this environment started, there and here, also in a task that is cancelled."""
        self._is_ending = True
        await self._cleanup()

    @property
    def _patience(self) -> float:
        return self._env.settings.timeout

    @property
    def _is_over(self) -> bool:
        return self._is_ending

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cleanup()
