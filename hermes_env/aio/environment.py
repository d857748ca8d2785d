"""Environments with their sessions, processes and streams of output, and pools of them, awaited on asyncio and trio."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from functools import partial
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

from environments import (
    BaseEnvironment,
    CancelScope,
    CommandResult,
    EnvironmentSession,
    EnvironmentSettings,
    Pool,
    Process,
    create_environment,
)
from environments.cancellation import current_scope, on_scope_cancel
from environments.files import TargetPath, check_codec, decoded_text, encoded_text
from environments.internal import Ended, Execution, Internal
from environments.loop import Call, current, done_within, run_async, shielded, spawn, work_of
from environments.observation.events import UNOBSERVED, Operation
from environments.observation.observed import with_result
from environments.options import CheckedCommand, CommandOptions, CommandText, StartOptions, StreamOptions
from environments.output import CallbackDecoder, ChannelName
from environments.process import GRACE, Background, checked_start
from environments.result import Capabilities
from environments.target import Target
from hermes_env.aio.calls import Waiting, Work, awaited, awaited_at_home, in_scope, in_thread, to_its_end

if TYPE_CHECKING:
    from environments.pool import PoolStats

T = TypeVar("T")
_P = ParamSpec("_P")
Hook = Callable[..., object]
"""A callback as the call without `await` takes it, or the same as a coroutine function."""


# Methods and properties, made of those of the same name beneath.


def _is_observed(thing: object) -> bool:
    observation = getattr(thing, "observation", None)
    return observation is not None and observation.is_observed


def as_coroutine(
    method: Callable[Concatenate[Any, _P], T], *, to_end: bool = False, path: str = "sync"
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, T]]:
    """Return a method that awaits the work of the method of the same name beneath.

    One that has no work is called on a worker thread, as is one with observers, which may block.

    Args:
        method: That method, of the base class.
        to_end: Whether it goes to its end also in a task that is cancelled.
        path: Where the thing beneath is.
    """
    beneath_of = attrgetter(path)

    @functools.wraps(method, updated=())  # without the mark of an abstract method
    async def call(self: object, /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        thing = beneath_of(self)
        beneath: Callable[_P, T] = getattr(thing, method.__name__)
        if to_end:
            return await to_its_end(lambda _: run_async(beneath, *args, **kwargs))
        if work := None if _is_observed(thing) else work_of(beneath):
            return await awaited(lambda call: work(call, *args, **kwargs))
        return await in_thread(partial(beneath, *args, **kwargs), "commands")

    return call


def same(name: str) -> Any:  # noqa: ANN401
    """Return the property of that name beneath, which takes no time."""
    return property(attrgetter(f"sync.{name}"))


def awaitable(name: str) -> Any:  # noqa: ANN401
    """Return the property of that name beneath, awaited, as it may have to start the target."""

    async def asked(thing: object) -> Any:  # noqa: ANN401
        if work := getattr(getattr(type(thing), name).fget, "work", None):
            return await awaited(partial(work, thing))
        return await in_thread(lambda: getattr(thing, name), "commands")

    return property(lambda self: asked(self.sync))


class Block:
    """A thing that ends with its `async with` block."""

    _end: Callable[[], Awaitable[None]]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()


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

        async def work(call: Call[None]) -> None:
            writing = spawn(run_async(self.sync.write, data), may_fail=True)
            try:
                with on_scope_cancel(lambda: current().soon(lambda: call.task and call.task.cancel())):
                    await shielded(writing)
            except asyncio.CancelledError:
                if not await done_within(writing, GRACE):
                    await run_async(self.sync.kill)

        await awaited(work)


async def _permitted(execution: Execution) -> Work[Ended]:
    """Ask hooks and rules, on a worker thread if there are any. Returns the work for the loop thread."""
    if await in_thread(execution.is_permitted, "commands") if execution.needs_decision else execution.is_permitted():
        return lambda call: execution.work(call, execution.command)

    async def never_ran(_: Call[Ended]) -> Ended:
        return execution.never_ran

    return never_ran


async def _result(execution: Execution) -> CommandResult:
    """Run a command. Its callback is called, and awaited, in this task."""
    command = execution.command
    teller = CallbackDecoder(command.on_output, command.binary) if command.on_output else None
    with execution.operation() as operation:
        ended = await awaited(await _permitted(execution), teller)
        for told in teller.finish() if teller else ():
            if inspect.isawaitable(told):
                await told
        return with_result(operation, ended())


class TextPiece(str):
    """Text that a command has printed."""

    channel: ChannelName
    """Where it was printed: `"stdout"`, or `"stderr"` if that was asked for apart."""


class BytesPiece(bytes):
    """Bytes that a command has printed."""

    channel: ChannelName
    """Where they were printed, as for `TextPiece`."""


PieceT = TypeVar("PieceT", TextPiece, BytesPiece)


class OutputStream(Block, Generic[PieceT]):
    """The output of a command, as it comes. The command begins when the first piece is asked for.

    Each piece is text or bytes, and knows its `channel`. At the end `result` has what came of the command. One that is
    not read makes its command wait. To leave the loop early ends the command: at once and awaited within
    `async with stream:`, or by `aclose`; else as soon as nothing refers to the stream any more.

    Args:
        execution: Returns the command.
        kind: The type of a piece.
    """

    def __init__(self, execution: Callable[[], Execution], kind: Callable[[Any], PieceT]) -> None:
        self._execution = execution
        self._ready: deque[PieceT] = deque()
        self._teller = CallbackDecoder(partial(_add, self._ready, kind), kind is BytesPiece)
        self._operation: Operation = UNOBSERVED
        self._waiting: Waiting | None = None
        self._has_ended = False
        self._result: CommandResult | None = None

    @property
    def result(self) -> CommandResult:
        """The result of the command.

        Raises:
            RuntimeError: It has not ended, or failed.
        """
        if self._result is None:
            raise RuntimeError("the command has no result yet; take all pieces of the stream first")
        return self._result

    def __aiter__(self) -> AsyncIterator[PieceT]:
        return self

    async def __anext__(self) -> PieceT:
        try:
            while not self._ready and not self._has_ended:
                pieces = await (self._waiting or await self._begin()).next()
                for channel, data in pieces:
                    self._teller(channel, data)
                if not pieces:
                    self._teller.finish()
                    self._has_ended = True
            if self._ready:
                return self._ready.popleft()
            await self.aclose()
        except GeneratorExit:  # the event loop was closed, and the stream goes with its last reference
            raise
        except BaseException as error:
            self._operation.add_error(error)
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def _begin(self) -> Waiting:
        execution = self._execution()
        scope = self._scope = CancelScope(outer=current_scope())
        weakref.finalize(self, scope.cancel).atexit = False  # left by a break, where nothing can await the end
        with execution.operation() as self._operation:
            self._operation.keep_open()
            with scope.active():
                work = await _permitted(execution)
            waiting = self._waiting = Waiting(in_scope(scope, work), wants_pieces=True)
        if waiting.call.pieces is not None:
            waiting.call.pieces.holds_session = False
        return waiting

    async def aclose(self) -> None:
        """End the command, if it has not ended, and wait for that. Safe to call twice."""
        has_ended, self._has_ended = self._has_ended, True
        self._ready.clear()
        waiting, self._waiting = self._waiting, None
        if waiting:
            await waiting.end(self._scope.cancel)
            if has_ended or waiting.call.error is None:
                ended = await waiting.result()
                with self._scope.active():  # which says how it was ended
                    self._result = with_result(self._operation, ended())
        self._operation.end()

    _end = aclose


def _add(ready: deque[PieceT], kind: Callable[[Any], PieceT], data: str | bytes, channel: ChannelName) -> None:
    piece = kind(data)
    piece.channel = channel
    ready.append(piece)


class Commands(Block):
    """Runs commands one after another: the part that an environment and a named session have in common."""

    sync: BaseEnvironment | EnvironmentSession

    async def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it, see `BaseEnvironment.execute`.

        `on_output` may be a coroutine function, which is awaited in the task; the command's output waits for it.
        """
        return await _result(self.sync._execution(command, **options))

    @overload
    def stream(
        self, command: CommandText, *, binary: Literal[False] = False, **options: Unpack[StreamOptions]
    ) -> OutputStream[TextPiece]: ...

    @overload
    def stream(
        self, command: CommandText, *, binary: Literal[True], **options: Unpack[StreamOptions]
    ) -> OutputStream[BytesPiece]: ...

    @overload
    def stream(
        self, command: CommandText, *, binary: bool, **options: Unpack[StreamOptions]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]: ...

    def stream(
        self, command: CommandText, *, binary: bool = False, **options: Unpack[StreamOptions]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]:
        """Run a command in the session as `execute` does, and go through its output: `async for piece in ...`.

        Meanwhile the session is taken: what is awaited in the loop goes beside it, by `execute_oneshot`.

        Args:
            command: As for `execute`.
            binary: Whether the pieces are bytes.
            options: All others of `execute`, but `on_output`.

        Raises:
            TypeError: There is no such argument.
        """
        if unknown := sorted(options.keys() - StreamOptions.__annotations__.keys()):
            raise TypeError(f"stream() has no argument {unknown[0]!r}")
        execution = partial(self.sync._execution, command, binary=binary, **options)
        return OutputStream(execution, BytesPiece) if binary else OutputStream(execution, TextPiece)


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

    async def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, see `BaseEnvironment.execute_oneshot`."""
        return await _result(self.sync._execution_beside(command, **options))

    async def execute_own(self, command: str, **options: Unpack[CommandOptions]) -> CommandResult:
        """Do the same for a command of a hook: no hook is asked, and no record is kept."""
        execution = self.sync._execution_beside(command, **options)
        return await _result(execution._replace(way=None, command=execution.command._replace(is_internal=True)))

    async def start(self, command: CommandText, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command in the background and return a handle to it, see `BaseEnvironment.start`.

        Cancelled, the command is ended. Once there is a handle, that one ends it.
        """
        env = self.sync
        if not (env.gate.asks_about_commands or _is_observed(env) or current_scope()):
            return await self._started(*checked_start(command, **options))
        start = partial(env.start, command, **options)
        return AsyncProcess(await in_thread(start, "commands", undo=lambda process: process.kill()))

    async def start_own(self, command: str, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Do the same for a command of a hook, see `execute_own`."""
        call, background = checked_start(command, **options)
        return await self._started(call._replace(is_internal=True), background)

    async def _started(self, command: CheckedCommand, background: Background) -> AsyncProcess:
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
        lease = pool.new_lease(timeout)
        try:
            env = await awaited(lambda _: pool.acquire(lease))
            lease.has_begun = True
            yield AsyncEnvironment.of(env)
        finally:
            pool.release(lease)
