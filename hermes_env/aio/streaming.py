"""Commands of a session, awaited: their result, or their output piece by piece with `async for`."""

from __future__ import annotations

import inspect
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeVar, Unpack, overload

from anyio.lowlevel import checkpoint

from environments import BaseEnvironment, CancelScope, CommandResult, EnvironmentSession
from environments.cancellation import current_scope
from environments.internal import Ended, Work
from environments.loop import QUEUED, Call
from environments.observation.observation import UNOBSERVED, Observation
from environments.observation.watched import came_of
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StderrMode
from environments.output import Channel, ChannelName, LiveText, channel_name
from hermes_env.aio.calls import Waiting, awaited, in_scope, in_thread, limiter_for

if TYPE_CHECKING:
    from environments.approvals.decision import Way

MOST_WAITING = QUEUED
"""Bytes that wait to be taken, above which the command has to wait."""


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


class Asked(NamedTuple):
    """A command that was asked for."""

    env: BaseEnvironment
    command: Command
    seen: Observation
    """What tells those who look on."""
    way: Way | None
    """How hooks and rules, which may block, are asked about it; None asks none."""
    run: Work
    session: EnvironmentSession | None = None
    """The session of a name in which it runs."""

    def may_run(self) -> bool:
        """Ask hooks and rules, which may block. False if it was cancelled."""
        return self.way is None or self.env.gate.permits(
            self.command, partial(self.env._known_cwd, self.session), self.way
        )

    async def work(self, call: Call[Any]) -> Ended:
        """Run it on the loop thread."""
        return await self.run(call, self.command)

    def never_ran(self) -> CommandResult:
        """Return the result of a command that was cancelled before it ran."""
        return CommandResult.never_ran(self.env._known_cwd(self.session) or "")

    async def result(self) -> CommandResult:
        """Run it, and await the callback for its output here."""
        decoder, on_output = Decoder(self.command.binary), self.command.on_output

        async def tell(channel: Channel, piece: str | bytes) -> None:
            if on_output and piece and inspect.isawaitable(told := on_output(piece, channel_name(channel))):
                await told

        async def tell_piece(channel: Channel, data: bytes) -> None:
            await tell(channel, decoder.decoded(channel, data))

        with self.seen as seen:
            if not await permitted(self.env, self.may_run):
                return came_of(seen, self.never_ran())
            ended = await awaited(self.work, tell_piece if on_output else None)
            for channel, text in decoder.rest():
                await tell(channel, text)
            return came_of(seen, ended())


async def permitted(env: BaseEnvironment, may_run: Callable[[], bool]) -> bool:
    """Ask hooks and rules about a command, on a worker thread if there are any. False if it was cancelled."""
    if env.gate.asks_about_commands:
        return await in_thread(may_run, limiter=limiter_for("commands"))
    return may_run()


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
    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        """Return a command of the session, checked."""

    async def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it, see `BaseEnvironment.execute`.

        `on_output` may be a coroutine function, which is awaited in the task; the command's output waits for it.
        """
        return await self._asked(command, **options).result()

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

        def ask() -> Asked:
            return self._asked(command, binary=binary, **arguments)

        return OutputStream(ask, BytesPiece) if binary else OutputStream(ask, TextPiece)


class OutputStream(Generic[PieceT]):
    """The output of a command, as it comes. The command begins when the first piece is asked for.

    Each piece is text or bytes, and knows its `channel`. At the end `result` has what came of the command. One that is
    not read makes its command wait. To leave the loop early ends the command: at once and awaited within
    `async with stream:`, or by `aclose`; else as soon as nothing refers to the stream any more.

    Args:
        ask: Returns the command.
        kind: The type of a piece.
    """

    def __init__(self, ask: Callable[[], Asked], kind: Callable[[Any], PieceT]) -> None:
        self._ask = ask
        self._kind: Callable[[Any], PieceT] = kind
        self._is_binary = kind is BytesPiece
        self._decoder = Decoder(self._is_binary)
        self._seen: Observation = UNOBSERVED
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
            waiting = self._waiting or await self._begin()
            await checkpoint()  # a command that prints quickly leaves other tasks their turn
            while waiting and not self._ready and not self._has_ended:
                await self._read(waiting)
        except BaseException as error:
            self._seen.failed(error)
            await self.aclose()
            raise
        if self._ready:
            return self._ready.popleft()
        self._is_over, self._waiting = True, None
        if waiting:
            await self._finish(waiting)
        raise StopAsyncIteration

    async def _begin(self) -> Waiting | None:
        asked = self._ask()
        scope = self._scope = CancelScope(outer=current_scope())
        weakref.finalize(self, scope.cancel).atexit = False  # left by a break, where nothing can await the end
        with asked.seen as self._seen:
            self._seen.goes_on()
            with scope.active():
                is_permitted = await permitted(asked.env, asked.may_run)
            if is_permitted:
                waiting = self._waiting = Waiting(in_scope(scope, asked.work), object(), wants_pieces=True)
                if waiting.call.pieces is not None:
                    waiting.call.pieces.holds_turn = False
                return waiting
        self._end(asked.never_ran())
        return None

    async def _finish(self, waiting: Waiting) -> None:
        try:
            ended: Ended = await waiting.result()
            self._end(ended())
        except BaseException as error:
            self._seen.failed(error)
            self._seen.end()
            raise

    def _end(self, result: CommandResult) -> None:
        with self._scope.active():  # which says how it was ended
            self._result = came_of(self._seen, result)
        self._seen.end()

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
                await self._finish(waiting)
        self._seen.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
