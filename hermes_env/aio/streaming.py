"""Commands, awaited: their result, or their output piece by piece with `async for`."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

from environments import BaseEnvironment, CancelScope, CommandResult, EnvironmentSession
from environments.cancellation import current_scope
from environments.internal import Ended
from environments.internal import Work as WorkOf
from environments.loop import Call
from environments.observation.observation import UNOBSERVED
from environments.observation.watched import came_of
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StderrMode
from environments.output import ChannelName, Teller
from hermes_env.aio.calls import Block, Waiting, Work, awaited, in_scope, in_thread, limiter_for

if TYPE_CHECKING:
    from environments.approvals.decision import Way


class TextPiece(str):
    """Text that a command has printed."""

    channel: ChannelName
    """Where it was printed: `"stdout"`, or `"stderr"` if that was asked for apart."""


class BytesPiece(bytes):
    """Bytes that a command has printed."""

    channel: ChannelName
    """Where they were printed, as for `TextPiece`."""


PieceT = TypeVar("PieceT", TextPiece, BytesPiece)


class Asked:
    """A command that was asked for.

    Args:
        env: The environment.
        command: The command.
        way: How hooks and rules are asked, and observers told, of it; None for a command of our own.
        run: Runs it on the loop thread.
        session: The session of a name in which it runs.
    """

    def __init__(
        self,
        env: BaseEnvironment,
        command: Command,
        way: Way | None,
        run: WorkOf,
        session: EnvironmentSession | None = None,
    ) -> None:
        self._env, self._way, self._run = env, way, run
        self.command = command if way else command._replace(is_own=True)
        self.seen = env.observation.command(command, way, session.name if session else None) if way else UNOBSERVED
        """What tells those who look on."""
        self._known_cwd = partial(env._known_cwd, session)

    def _may_run(self) -> bool:
        return self._way is None or self._env.gate.permits(self.command, self._known_cwd, self._way)

    async def permitted(self) -> Work[Ended]:
        """Ask hooks and rules, on a worker thread if there are any, and return what the loop thread is to do."""
        asks = self._way and self._env.gate.asks_about_commands
        if await in_thread(self._may_run, limiter=limiter_for()) if asks else self._may_run():
            return lambda call: self._run(call, self.command)
        return self._never_ran

    async def _never_ran(self, _: Call[Ended]) -> Ended:
        return lambda: CommandResult.never_ran(self._known_cwd() or "")

    async def result(self) -> CommandResult:
        """Run it, and await the callback for its output here."""
        teller = Teller(self.command.on_output, self.command.binary) if self.command.on_output else None
        with self.seen as seen:
            ended = await awaited(await self.permitted(), teller)
            for told in teller.finish() if teller else ():
                if inspect.isawaitable(told):
                    await told
            return came_of(seen, ended())


class StreamArguments(SharedOptions, total=False):
    """The options of a command of a stream, see `BaseEnvironment.execute`."""

    timeout: float | None
    stdin: str | bytes | None
    stderr: StderrMode
    max_output_bytes: int | None
    interrupt: threading.Event | None


class Commands(Block):
    """Runs commands one after another: the part that an environment and a named session have in common."""

    def _asked(self, command: CommandText, **options: Unpack[CommandOptions]) -> Asked:
        """Return a command of the session, checked."""
        raise NotImplementedError

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
        ask = partial(self._asked, command, binary=binary, **arguments)
        return OutputStream(ask, BytesPiece) if binary else OutputStream(ask, TextPiece)


class OutputStream(Block, Generic[PieceT]):
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
        self._ready: deque[PieceT] = deque()
        self._teller = Teller(partial(_add, self._ready, kind), kind is BytesPiece)
        self._asked: Asked | None = None
        self._waiting: Waiting | None = None
        self._is_over = False
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
            while not self._ready and not self._is_over:
                pieces = await (self._waiting or await self._begin()).next()
                for channel, data in pieces:
                    self._teller(channel, data)
                if not pieces:
                    self._teller.finish()
                    self._is_over = True
            if self._ready:
                return self._ready.popleft()
            await self._finish()
        except BaseException as error:
            await self._end_early(error)
            raise
        raise StopAsyncIteration

    async def _begin(self) -> Waiting:
        asked = self._asked = self._ask()
        scope = self._scope = CancelScope(outer=current_scope())
        weakref.finalize(self, scope.cancel).atexit = False  # left by a break, where nothing can await the end
        with asked.seen as seen:
            seen.goes_on()
            with scope.active():
                work = await asked.permitted()
            waiting = self._waiting = Waiting(in_scope(scope, work), object(), wants_pieces=True)
        if waiting.call.pieces is not None:
            waiting.call.pieces.holds_turn = False
        return waiting

    async def _finish(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting and self._asked:
            ended = await waiting.result()
            with self._scope.active():  # which says how it was ended
                self._result = came_of(self._asked.seen, ended())
            self._asked.seen.end()

    async def aclose(self) -> None:
        """End the command, if it has not ended, and wait for that. Safe to call twice."""
        await self._end_early()

    _end = aclose

    async def _end_early(self, error: BaseException | None = None) -> None:
        self._is_over = True
        self._ready.clear()
        seen = self._asked.seen if self._asked else UNOBSERVED
        if error:
            seen.failed(error)
        if waiting := self._waiting:
            await waiting.end(self._scope.cancel)
            if waiting.call.error is None:
                await self._finish()
        seen.end()


def _add(ready: deque[PieceT], kind: Callable[[Any], PieceT], data: str | bytes, channel: ChannelName) -> None:
    piece = kind(data)
    piece.channel = channel
    ready.append(piece)
