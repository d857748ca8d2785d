"""An environment that is awaited, on asyncio and on trio."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from environments import (
    BaseEnvironment,
    CallCancelledError,
    CommandResult,
    EnvironmentSession,
    Target,
    create_environment,
)
from environments.cancellation import check_scope
from environments.observation.observation import UNOBSERVED
from environments.options import Command, CommandOptions, CommandText, StartOptions
from environments.process import Background, checked_start
from environments.result import Capabilities
from hermes_env.aio.calls import as_coroutine, asked, awaited, awaited_at_home, in_thread, run_of
from hermes_env.aio.process import AsyncProcess
from hermes_env.aio.streaming import Asked, Commands, permitted

if TYPE_CHECKING:
    from environments import EnvironmentSettings
    from environments.starting import Progress

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

    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        env = self._env
        call = env._in_session(command, **options)
        seen = env.observation.command(call, "session")
        return Asked(env, call, seen, "session", env.internal.run_in_session)

    async def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, see `BaseEnvironment.execute_oneshot`."""
        env = self._env
        call = env._beside(command, **options)
        seen = env.observation.command(call, "oneshot")
        return await Asked(env, call, seen, "oneshot", env.internal.run_beside).result()

    async def execute_own(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do the same for a command of a hook, about which nobody is asked, see `BaseEnvironment.internal`."""
        env = self._env
        call = env._beside(command, **options)._replace(is_own=True)
        return await Asked(env, call, UNOBSERVED, None, env.internal.run_beside).result()

    async def start(self, command: CommandText, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command in the background and return a handle to it, see `BaseEnvironment.start`.

        Cancelled, the command is ended. Once there is a handle, that one ends it.
        """
        env = self._env
        call, background = checked_start(command, **options)
        with env.observation.process(call, background.terminal is not None) as seen:
            if not await permitted(env, partial(env.gate.permits, call, env._known_cwd, "background")):
                raise CallCancelledError("the scope was cancelled, so that the command was not started")
            background = background.tapped(seen)
            process = await self._started(call, background)
            if background.tap:
                await in_thread(partial(process.sync.observed_by, seen, background.tap))
            return process

    async def start_own(self, command: str, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Do the same for a command of a hook, see `BaseEnvironment.internal`."""
        call, background = checked_start(command, **options)
        return await self._started(call._replace(is_own=True), background)

    async def _started(self, command: Command, background: Background) -> AsyncProcess:
        run = self._env.internal.run_in_background
        check_scope()
        try:
            return AsyncProcess(await awaited(lambda call: run(call, command, background)))
        except Exception:
            check_scope()
            raise

    address = as_coroutine(BaseEnvironment.address, "commands")
    interrupt = as_coroutine(BaseEnvironment.interrupt)

    async def session_variable(self, name: str) -> str:
        """Return a variable as the session's last command left it, see `BaseEnvironment.internal`."""
        run = run_of(self._env.internal.variable)
        value: str = await awaited(lambda call: run(call, name))
        return value

    async def scratch_directory(self) -> str:
        """Return our private directory in the target, see `BaseEnvironment.internal`."""
        path: str = await awaited(run_of(self._env.internal.scratch_directory))
        return path

    prepare = as_coroutine(BaseEnvironment.prepare, "commands")
    cleanup = as_coroutine(BaseEnvironment.cleanup, to_end=True)

    async def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> AsyncSession:
        """Return the session of a name, which is opened unless it is open, see `BaseEnvironment.session`."""
        return AsyncSession(self._env.session(name, cwd=cwd, user=user), self._env)

    # Files. Cancelled, a transfer ends in the middle and leaves no part of a file.

    write_bytes = as_coroutine(BaseEnvironment.write_bytes, "commands")
    read_bytes = as_coroutine(BaseEnvironment.read_bytes, "commands")
    put_file = as_coroutine(BaseEnvironment.put_file, "commands")
    get_file = as_coroutine(BaseEnvironment.get_file, "commands")
    put_dir = as_coroutine(BaseEnvironment.put_dir, "commands")
    get_dir = as_coroutine(BaseEnvironment.get_dir, "commands")
    stat = as_coroutine(BaseEnvironment.stat, "commands")
    list_dir = as_coroutine(BaseEnvironment.list_dir, "commands")
    mkdir = as_coroutine(BaseEnvironment.mkdir, "commands")
    remove = as_coroutine(BaseEnvironment.remove, "commands")
    exists = as_coroutine(BaseEnvironment.exists, "commands")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cleanup()


class AsyncSession(Commands):
    """A session beside that of `execute`, see `environments.EnvironmentSession`. `AsyncEnvironment.session` makes it.

    Args:
        session: The session beneath.
        env: Its environment.
    """

    def __init__(self, session: EnvironmentSession, env: BaseEnvironment) -> None:
        self._session, self._env = session, env

    @property
    def sync(self) -> EnvironmentSession:
        """The session beneath, for what is not awaited."""
        return self._session

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self._session.name

    @property
    def user(self) -> str | None:
        """The user that its commands run as; None is the target's own."""
        return self._session.user

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._session.closed

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""
        return self._session.busy

    @property
    def cwd(self) -> Awaitable[str]:
        """Its working directory, see `EnvironmentSession.cwd`: `await session.cwd`."""
        return asked(self._session, "cwd")

    interrupt = as_coroutine(EnvironmentSession.interrupt)
    close = as_coroutine(EnvironmentSession.close, to_end=True)

    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        session, env = self._session, self._env
        call = session._checked(command, **options)
        seen = env.observation.command(call, "session", session.name)
        return Asked(env, call, seen, "session", session._run, session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
