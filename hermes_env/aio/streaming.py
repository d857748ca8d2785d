"""Commands of a session, awaited: their result, or their output piece by piece with `async for`."""

from __future__ import annotations

import inspect
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from anyio.lowlevel import checkpoint

from environments import BaseEnvironment, CancelScope, CommandResult, EnvironmentSession
from environments.capture import LiveText
from environments.execution import starts_end_with
from environments.listener import ChannelName, channel_name
from environments.loop import QUEUED, Call, current, in_worker, work_of
from environments.observation.observation import UNOBSERVED
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StderrMode
from environments.sink import Channel
from hermes_env.aio.calls import (
    Waiting,
    Work,
    awaited,
    awaited_at_home,
    in_scope,
    in_thread,
    limiter_for,
    scope_of_caller,
)

MOST_WAITING = QUEUED
"""Bytes that wait to be taken, above which the command has to wait."""
POLL = 0.1
"""Seconds between looks at whether a command that waits for its reader is to end."""
Run = Callable[[Call[Any], Command], Awaitable[Any]]
"""A coroutine function that runs a command on the loop thread."""


class TextPiece(str):
    """Text that a command has printed."""

    channel: ChannelName
    """Where it was printed: `"stdout"`, or `"stderr"` if that was asked for apart."""


class BytesPiece(bytes):
    """Bytes that a command has printed."""

    channel: ChannelName
    """Where they were printed, as for `TextPiece`."""


PieceT = TypeVar("PieceT", TextPiece, BytesPiece)


class Decoder:
    """Makes text of output that comes in pieces, or leaves it bytes."""

    def __init__(self, binary: bool) -> None:
        self._live = {} if binary else {channel: LiveText() for channel in Channel}

    def decoded(self, channel: Channel, data: bytes) -> str | bytes:
        """Return the characters that are complete."""
        return self._live[channel].feed(data) if self._live else data

    def rest(self) -> list[tuple[Channel, str]]:
        """Return the characters that were cut off at the end."""
        rest = [(channel, live.feed(b"", final=True)) for channel, live in self._live.items()]
        return [(channel, text) for channel, text in rest if text]


def coroutine_of(env: BaseEnvironment, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]] | None:
    """Return the coroutine function that a method of an environment waits for.

    None if the method has to be called in a thread: its backend has no coroutine, or a hook, a rule or an observer of
    the environment may block.
    """
    may_block = env.before_command or env.rules or env.observation.observed("command", "", dict) is not UNOBSERVED
    return None if may_block else work_of(method)


async def ran(command: Command, work: Work[Any]) -> CommandResult:
    """Have the loop thread run a command, and await the callback for its output here."""
    decoder, on_output = Decoder(command.binary), command.on_output

    async def tell(channel: Channel, piece: str | bytes) -> None:
        if on_output and piece and inspect.isawaitable(told := on_output(piece, channel_name(channel))):
            await told

    outcome = await awaited(work, on_output and (lambda channel, data: tell(channel, decoder.decoded(channel, data))))
    for channel, text in decoder.rest():
        await tell(channel, text)
    return _result(outcome, command.binary)


def _result(outcome: Any, binary: bool) -> CommandResult:  # noqa: ANN401
    result: CommandResult = outcome if isinstance(outcome, CommandResult) else outcome.result(binary)
    return result


class StreamArguments(SharedOptions, total=False):
    """The options of a command of a stream, see `BaseEnvironment.execute`."""

    timeout: float | None
    stdin: str | bytes | None
    stderr: StderrMode
    max_output_bytes: int | None
    interrupt: threading.Event | None


class Commands(ABC):
    """Runs commands one after another: the part that an environment and a named session have in common."""

    @property
    @abstractmethod
    def sync(self) -> BaseEnvironment | EnvironmentSession:
        """The thing beneath, for what is not awaited."""

    @abstractmethod
    def _in_session(self) -> Run | None:
        """Return the coroutine function that runs a command in the session, see `coroutine_of`."""

    def _work(self, run: Run, command: Command, *, keeps_cwd: bool = True) -> Work[Any]:
        sync = self.sync

        async def work(call: Call[Any]) -> Any:  # noqa: ANN401
            if command.is_cancelled:
                return CommandResult.never_ran(sync._known_cwd or "")
            with starts_end_with(command):
                outcome = await run(call, command)
            if keeps_cwd and command.cwd is None:
                sync._known_cwd = outcome.cwd
            return outcome

        return work

    async def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it, see `BaseEnvironment.execute`.

        `on_output` may be a coroutine function, which is awaited in the task; the command's output waits for it.
        """
        if not (run := self._in_session()):
            return await blocking(partial(self.sync.execute, command), options)
        call = self.sync._session_call(command, **options)
        return await ran(call, self._work(run, call))

    @overload
    def stream(
        self, command: CommandText, *, binary: Literal[False] = False, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece]: ...

    @overload
    def stream(
        self, command: CommandText, *, binary: Literal[True], **arguments: Unpack[StreamArguments]
    ) -> OutputStream[BytesPiece]: ...

    @overload
    def stream(
        self, command: CommandText, *, binary: bool, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]: ...

    def stream(
        self, command: CommandText, *, binary: bool = False, **arguments: Unpack[StreamArguments]
    ) -> OutputStream[TextPiece] | OutputStream[BytesPiece]:
        """Run a command in the session as `execute` does, and go through its output: `async for piece in ...`.

        Meanwhile the session is taken: what is awaited in the loop goes beside it, by `execute_oneshot`.

        Args:
            command: As for `execute`.
            binary: Whether the pieces are bytes.
            arguments: All others of `execute`, but `on_output`.

        Raises:
            TypeError: There is no such argument.
        """
        if unknown := sorted(arguments.keys() - StreamArguments.__annotations__.keys()):
            raise TypeError(f"stream() has no argument {unknown[0]!r}")

        def begin(scope: CancelScope) -> Waiting:
            if run := self._in_session():
                work = self._work(run, self.sync._session_call(command, binary=binary, **arguments))
            else:
                work = partial(_in_thread, partial(self.sync.execute, command, **arguments), scope)
            waiting = Waiting(in_scope(scope, work), object(), wants_pieces=True)
            if waiting.call.pieces is not None:
                waiting.call.pieces.holds_turn = False
            return waiting

        return OutputStream(begin, BytesPiece) if binary else OutputStream(begin, TextPiece)


async def blocking(execute: Callable[..., CommandResult], options: CommandOptions) -> CommandResult:
    """Run a command on a worker thread."""
    given: dict[str, Any] = {**options}
    if callable(given.get("on_output")):
        given["on_output"] = awaited_at_home(given["on_output"])
    return await in_thread(partial(execute, **given), limiter=limiter_for("commands"))


class _Gate:
    """Stops a thread that brings output, see `environments.loop.Pausable`."""

    def __init__(self) -> None:
        self._is_open = threading.Event()
        self.pause, self.resume, self.wait = self._is_open.clear, self._is_open.set, self._is_open.wait
        self.resume()


async def _in_thread(execute: Callable[..., CommandResult], scope: CancelScope, call: Call[Any]) -> CommandResult:
    """Run a command of a stream on a worker thread."""
    gate, pieces = _Gate(), call.pieces
    assert pieces is not None

    def tell(data: bytes, channel: ChannelName) -> None:
        current().soon(pieces.offer, Channel.STDERR if channel == "stderr" else Channel.STDOUT, data, gate)
        while not gate.wait(POLL) and not scope.cancelled:
            pass

    return await in_worker(partial(execute, binary=True, on_output=tell))


class OutputStream(Generic[PieceT]):
    """The output of a command, as it comes. The command begins when the first piece is asked for.

    Each piece is text or bytes, and knows its `channel`. At the end `result` has what came of the command. One that is
    not read makes its command wait. To leave the loop early ends the command: at once and awaited within
    `async with stream:`, or by `aclose`; else as soon as nothing refers to the stream any more.

    Args:
        begin: Begins the command, in a scope.
        kind: The type of a piece.
    """

    def __init__(self, begin: Callable[[CancelScope], Waiting], kind: Callable[[Any], PieceT]) -> None:
        self._begin = begin
        self._kind: Callable[[Any], PieceT] = kind
        self._is_binary = kind is BytesPiece
        self._decoder = Decoder(self._is_binary)
        self._waiting: Waiting | None = None
        self._ready: deque[PieceT] = deque()
        self._has_ended = self._is_over = False
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
        if self._is_over:
            raise StopAsyncIteration
        try:
            waiting = self._waiting or self._begun()
            await checkpoint()  # a command that prints quickly leaves other tasks their turn
            while not self._ready and not self._has_ended:
                await self._read(waiting)
        except BaseException:
            await self.aclose()
            raise
        if self._ready:
            return self._ready.popleft()
        self._is_over, self._waiting = True, None
        self._result = _result(await waiting.result(), self._is_binary)
        raise StopAsyncIteration

    def _begun(self) -> Waiting:
        self._scope = scope_of_caller()
        self._waiting = self._begin(self._scope)
        weakref.finalize(self, self._scope.cancel).atexit = False  # left by a break, where nothing can await the end
        return self._waiting

    async def _read(self, waiting: Waiting) -> None:
        self._has_ended = waiting.call.done  # nothing is printed behind that
        pieces = waiting.take()
        for channel, data in pieces:
            self._add(channel, self._decoder.decoded(channel, data))
        waiting.note_taken(pieces)
        if self._has_ended:
            for channel, text in self._decoder.rest():
                self._add(channel, text)
        elif not self._ready:
            await waiting.news()

    def _add(self, channel: Channel, data: str | bytes) -> None:
        if data:
            piece = self._kind(data)
            piece.channel = channel_name(channel)
            self._ready.append(piece)

    async def aclose(self) -> None:
        """End the command, if it has not ended, and wait for that. Safe to call twice."""
        self._is_over = True
        waiting, self._waiting = self._waiting, None
        if waiting:
            await waiting.end(self._scope.cancel)
            if waiting.call.error is None:
                self._result = _result(await waiting.result(), self._is_binary)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
