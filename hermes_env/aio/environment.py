"""Asynchronous environments, sessions, processes, output streams and pools, on asyncio and trio."""

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
from environments.options import CommandOptions, CommandText, StartOptions, StreamOptions
from environments.output import CallbackDecoder, ChannelName
from environments.process import GRACE, checked_start
from environments.result import Capabilities
from environments.target import Target
from hermes_env.aio.calls import PendingCall, Work, awaited, awaited_on_callers_loop, in_scope, in_thread, run_to_end

if TYPE_CHECKING:
    from environments.pool import PoolStats

T = TypeVar("T")
_P = ParamSpec("_P")
Hook = Callable[..., object]
"""A callback of the synchronous call, as a function or as a coroutine function."""


# Asynchronous methods and properties, made from the synchronous ones of the same name.


def _is_observed(thing: object) -> bool:
    observation = getattr(thing, "observation", None)
    return observation is not None and observation.is_observed


def as_coroutine(
    method: Callable[Concatenate[Any, _P], T], *, to_end: bool = False, path: str = "sync"
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, T]]:
    """Return an asynchronous method for a synchronous one.

    The loop thread runs a method's work. A method without work, or with observers (they may block), is called on a
    worker thread.

    Args:
        method: The synchronous method, of the base class.
        to_end: True if the method runs to its end also in a cancelled task.
        path: The attribute with the synchronous object.
    """
    beneath_of = attrgetter(path)

    @functools.wraps(method, updated=())  # without the mark of an abstract method
    async def call(self: object, /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        thing = beneath_of(self)
        beneath: Callable[_P, T] = getattr(thing, method.__name__)
        if to_end:
            return await run_to_end(lambda _: run_async(beneath, *args, **kwargs))
        if work := None if _is_observed(thing) else work_of(beneath):
            return await awaited(lambda call: work(call, *args, **kwargs))
        return await in_thread(partial(beneath, *args, **kwargs), "commands")

    return call


def forwarded(name: str) -> Any:  # noqa: ANN401
    """Return a property that reads the synchronous object's attribute, which takes no time."""
    return property(attrgetter(f"sync.{name}"))


def awaited_property(name: str) -> Any:  # noqa: ANN401
    """Return a property to be awaited: reading the synchronous attribute may start the target."""

    async def asked(thing: object) -> Any:  # noqa: ANN401
        if work := getattr(getattr(type(thing), name).fget, "work", None):
            return await awaited(partial(work, thing))
        return await in_thread(lambda: getattr(thing, name), "commands")

    return property(lambda self: asked(self.sync))


class AsyncContext:
    """Closes the object at the end of an `async with` block."""

    _end: Callable[[], Awaitable[None]]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()


class AsyncProcess:
    """A command that runs in the background, see `environments.Process`. `AsyncEnvironment.start` makes it.

    Args:
        process: The synchronous handle.
    """

    def __init__(self, process: Process) -> None:
        self.sync = process
        """The synchronous handle."""

    pid: int = forwarded("pid")
    """The process id, in the target, of the shell that runs the command."""
    running: bool = forwarded("running")
    """True until the command has ended."""

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

        After cancellation the command has one second to read its input. Then the command is killed, because the
        amount of received input is unknown.

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
    """Ask hooks and rules, on a worker thread if any are set. Return the work for the loop thread."""
    if await in_thread(execution.is_permitted, "commands") if execution.needs_decision else execution.is_permitted():
        return lambda call: execution.work(call, execution.command)

    async def never_ran(_: Call[Ended]) -> Ended:
        return execution.never_ran

    return never_ran


async def _result(execution: Execution) -> CommandResult:
    """Run a command. Its callback is called and awaited in this task."""
    command = execution.command
    decoder = CallbackDecoder(command.on_output, command.binary) if command.on_output else None
    with execution.operation() as operation:
        ended = await awaited(await _permitted(execution), decoder)
        for result in decoder.finish() if decoder else ():
            if inspect.isawaitable(result):
                await result
        return with_result(operation, ended())


class TextPiece(str):
    """A piece of a command's output as text."""

    channel: ChannelName
    """The stream: `"stdout"`, or `"stderr"` with `stderr="separate"`."""


class BytesPiece(bytes):
    """A piece of a command's output as bytes."""

    channel: ChannelName
    """The stream, as for `TextPiece`."""


PieceT = TypeVar("PieceT", TextPiece, BytesPiece)


class OutputStream(AsyncContext, Generic[PieceT]):
    """A command's output as a stream of pieces. The first read starts the command.

    Each piece is text or bytes with a `channel`. At the end `result` is the command's result. An unread stream blocks
    the command (back-pressure). Leaving the loop early ends the command: at once within `async with stream:` or by
    `aclose`, otherwise when the stream is garbage-collected.

    Args:
        execution: Returns the command.
        kind: The type of a piece.
    """

    def __init__(self, execution: Callable[[], Execution], kind: Callable[[Any], PieceT]) -> None:
        self._execution = execution
        self._ready: deque[PieceT] = deque()
        self._decoder = CallbackDecoder(partial(_add, self._ready, kind), kind is BytesPiece)
        self._operation: Operation = UNOBSERVED
        self._pending: PendingCall | None = None
        self._has_ended = False
        self._result: CommandResult | None = None

    @property
    def result(self) -> CommandResult:
        """The result of the command.

        Raises:
            RuntimeError: The command has not ended, or failed.
        """
        if self._result is None:
            raise RuntimeError("the command has no result yet; read the stream to its end first")
        return self._result

    def __aiter__(self) -> AsyncIterator[PieceT]:
        return self

    async def __anext__(self) -> PieceT:
        try:
            while not self._ready and not self._has_ended:
                pieces = await (self._pending or await self._begin()).next()
                for channel, data in pieces:
                    self._decoder(channel, data)
                if not pieces:
                    self._decoder.finish()
                    self._has_ended = True
            if self._ready:
                return self._ready.popleft()
            await self.aclose()
        except GeneratorExit:  # the event loop was closed; the stream ends with its last reference
            raise
        except BaseException as error:
            self._operation.add_error(error)
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def _begin(self) -> PendingCall:
        execution = self._execution()
        scope = self._scope = CancelScope(outer=current_scope())
        weakref.finalize(self, scope.cancel).atexit = False  # after a `break`, no code can await the end
        with execution.operation() as self._operation:
            self._operation.keep_open()
            with scope.active():
                work = await _permitted(execution)
            pending = self._pending = PendingCall(in_scope(scope, work), wants_pieces=True)
        if pending.call.pieces is not None:
            pending.call.pieces.holds_session = False
        return pending

    async def aclose(self) -> None:
        """End the command if necessary, and wait for its end. Safe to call twice."""
        has_ended, self._has_ended = self._has_ended, True
        self._ready.clear()
        pending, self._pending = self._pending, None
        if pending:
            await pending.end(self._scope.cancel)
            if has_ended or pending.call.error is None:
                ended = await pending.result()
                with self._scope.active():  # the result depends on the scope's state
                    self._result = with_result(self._operation, ended())
        self._operation.end()

    _end = aclose


def _add(ready: deque[PieceT], kind: Callable[[Any], PieceT], data: str | bytes, channel: ChannelName) -> None:
    piece = kind(data)
    piece.channel = channel
    ready.append(piece)


class AsyncCommands(AsyncContext):
    """Runs commands one after another: the common base of an environment and a named session."""

    sync: BaseEnvironment | EnvironmentSession

    async def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it, see `BaseEnvironment.execute`.

        `on_output` may be a coroutine function. The task awaits the callback; meanwhile output is held back
        (back-pressure).
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
        """Run a command in the session, and iterate over its output: `async for piece in env.stream(command)`.

        Meanwhile the session is locked: inside the loop use `execute_oneshot`.

        Args:
            command: As for `execute`.
            binary: True for pieces of bytes.
            options: The other arguments of `execute`, except `on_output`.

        Raises:
            TypeError: There is no such argument.
        """
        if unknown := sorted(options.keys() - StreamOptions.__annotations__.keys()):
            raise TypeError(f"stream() has no argument {unknown[0]!r}")
        execution = partial(self.sync._execution, command, binary=binary, **options)
        return OutputStream(execution, BytesPiece) if binary else OutputStream(execution, TextPiece)


class AsyncEnvironment(AsyncCommands):
    """The asynchronous `environments.BaseEnvironment`: the same methods and arguments, awaited.

    Cancellation, by a scope, a time-out or asyncio, ends the work in the target before the await returns. The end of
    the `async with` block, or `cleanup`, removes everything. Several tasks, and several event loops one after another,
    may use the same environment.

    Args:
        backend: As for `create_environment`.
        before_command: Decides on each command, as for `create_environment`. This hook and the next four may be
            coroutine functions; the event loop of the calling task awaits them.
        before_script: Decides on each script.
        before_tool_call: Decides on each tool call of a script.
        approve: Answers when a hook or a rule asks.
        on_progress: Receives the progress of a start or a transfer.
        settings: As for `create_environment`.

    Raises:
        SettingsError: As `create_environment`, with its other errors.
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
        given = {name: awaited_on_callers_loop(hook) for name, hook in hooks.items() if hook}
        self.sync: BaseEnvironment = create_environment(backend, **given, **settings)
        """The synchronous environment."""

    @classmethod
    def of(cls, env: BaseEnvironment) -> AsyncEnvironment:
        """Wrap an existing environment. Both may be used side by side."""
        made = cls.__new__(cls)
        made.sync = env
        return made

    backend: str = forwarded("backend")
    """The registered name of the backend."""
    settings: EnvironmentSettings = forwarded("settings")
    """The environment's settings."""
    busy: bool = forwarded("busy")
    """True while a command or a background process runs."""
    idle_seconds: float = forwarded("idle_seconds")
    """Seconds since the last use; 0 while a command runs."""
    touch: Callable[[], None] = forwarded("touch")
    """Mark the environment as in use, so that `idle_seconds` starts at 0."""
    capabilities: Awaitable[Capabilities] = awaited_property("capabilities")
    """The features of this backend here, see `BaseEnvironment.capabilities`: `await env.capabilities`."""
    cwd: Awaitable[str] = awaited_property("cwd")
    """The session's working directory, see `BaseEnvironment.cwd`: `await env.cwd`."""
    target: Awaitable[Target] = awaited_property("target")
    """The kind, id and place of the target, see `BaseEnvironment.target`: `await env.target`."""

    async def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, outside the session, see `BaseEnvironment.execute_oneshot`."""
        return await _result(self.sync._execution_beside(command, **options))

    async def start(self, command: CommandText, **options: Unpack[StartOptions]) -> AsyncProcess:
        """Start a command in the background and return a handle, see `BaseEnvironment.start`.

        Cancellation of this call ends the command; later only the handle ends the command.
        """
        env = self.sync
        if env.gate.has_command_checks or _is_observed(env) or current_scope():
            start = partial(env.start, command, **options)
            return AsyncProcess(await in_thread(start, "commands", undo=lambda process: process.kill()))
        checked_command, background = checked_start(command, **options)
        self.touch()
        run = env.internal.run_in_background
        return AsyncProcess(await awaited(lambda call: run(call, checked_command, background)))

    address = as_coroutine(BaseEnvironment.address)
    interrupt = as_coroutine(BaseEnvironment.interrupt, to_end=True)

    scratch_directory = as_coroutine(Internal.scratch_directory, path="sync.internal")
    prepare = as_coroutine(BaseEnvironment.prepare)
    set_network = as_coroutine(BaseEnvironment.set_network)
    cleanup = _end = as_coroutine(BaseEnvironment.cleanup, to_end=True)

    async def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> AsyncSession:
        """Return the named session, and open the session if necessary, see `BaseEnvironment.session`."""
        return AsyncSession(self.sync.session(name, cwd=cwd, user=user))

    snapshot = as_coroutine(BaseEnvironment.snapshot)
    _forked = as_coroutine(BaseEnvironment.fork)

    async def fork(self) -> AsyncEnvironment:
        """Return an environment on a copy of the target, see `BaseEnvironment.fork`."""
        return AsyncEnvironment.of(await self._forked())

    # Files. A cancelled transfer ends in the middle and leaves no part of a file.

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


class AsyncSession(AsyncCommands):
    """A named session, see `environments.EnvironmentSession`. `AsyncEnvironment.session` makes it.

    Args:
        session: The synchronous session.
    """

    def __init__(self, session: EnvironmentSession) -> None:
        self.sync = session
        """The synchronous session."""

    name: str = forwarded("name")
    """The session's name."""
    user: str | None = forwarded("user")
    """The user of its commands; None is the target's own user."""
    closed: bool = forwarded("closed")
    """True once `close` was called."""
    busy: bool = forwarded("busy")
    """True while a command runs in the session."""
    cwd: Awaitable[str] = awaited_property("cwd")
    """The session's working directory, see `EnvironmentSession.cwd`: `await session.cwd`."""

    interrupt = as_coroutine(EnvironmentSession.interrupt, to_end=True)
    close = _end = as_coroutine(EnvironmentSession.close, to_end=True)


class AsyncPool(AsyncContext):
    """Leases environments that are ready, see `environments.Pool`, with the same arguments and errors.

    The end of the `async with` block, or `close`, removes all environments.
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
        """The synchronous pool."""

    stats: Callable[[], PoolStats] = forwarded("stats")
    """Return the number of environments, by state."""
    close = _end = as_coroutine(Pool.close, to_end=True)

    @contextlib.asynccontextmanager
    async def environment(self, timeout: float | None = None) -> AsyncIterator[AsyncEnvironment]:
        """Lease an environment for the block, see `Pool.environment`. Cancellation ends the wait.

        Args:
            timeout: Seconds to wait; None waits without a limit.

        Raises:
            EnvironmentStartError: No environment could be started; a `StartStoppedError` after the time-out.
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
