"""Commands, awaited: their result, or their output piece by piece with `async for`."""

from __future__ import annotations

import inspect
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, Unpack, overload

from environments import BaseEnvironment, CancelScope, CommandResult, EnvironmentSession
from environments.cancellation import current_scope
from environments.internal import Ended
from environments.internal import Work as WorkOf
from environments.loop import Call
from environments.observation.events import UNOBSERVED, Operation
from environments.observation.observed import came_of
from environments.options import Command, CommandOptions, CommandText, SharedOptions, StderrMode
from environments.output import ChannelName, Teller
from hermes_env.aio.calls import Block, Waiting, Work, awaited, in_scope, in_thread

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


class Asked(NamedTuple):
    """A command that was asked for."""

    env: BaseEnvironment
    command: Command
    way: Way | None
    """How hooks and rules are asked, and observers told, of it; None for one that nobody is asked or told of."""
    run: WorkOf
    """Runs it on the loop thread."""
    session: EnvironmentSession | None = None
    """The session of a name in which it runs."""

    def observed(self) -> Operation:
        """Return what tells those who look on."""
        name = self.session.name if self.session else None
        return self.env.observation.command(self.command, self.way, name) if self.way else UNOBSERVED

    def _may_run(self) -> bool:
        cwd = partial(self.env._known_cwd, self.session)
        return self.way is None or self.env.gate.permits(self.command, cwd, self.way)

    async def permitted(self) -> Work[Ended]:
        """Ask hooks and rules, on a worker thread if there are any, and return what the loop thread is to do."""
        asks = self.way and self.env.gate.asks_about_commands
        if await in_thread(self._may_run, "commands") if asks else self._may_run():
            return lambda call: self.run(call, self.command)
        return self._never_ran

    async def _never_ran(self, _: Call[Ended]) -> Ended:
        return lambda: CommandResult.never_ran(self.env._known_cwd(self.session) or "")

    async def result(self) -> CommandResult:
        """Run it, and await the callback for its output here."""
        teller = Teller(self.command.on_output, self.command.binary) if self.command.on_output else None
        with self.observed() as operation:
            ended = await awaited(await self.permitted(), teller)
            for told in teller.finish() if teller else ():
                if inspect.isawaitable(told):
                    await told
            return came_of(operation, ended())


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
            self._operation.failed(error)
            await self.aclose()
            raise
        raise StopAsyncIteration

    async def _begin(self) -> Waiting:
        asked = self._ask()
        scope = self._scope = CancelScope(outer=current_scope())
        weakref.finalize(self, scope.cancel).atexit = False  # left by a break, where nothing can await the end
        with asked.observed() as self._operation:
            self._operation.goes_on()
            with scope.active():
                work = await asked.permitted()
            waiting = self._waiting = Waiting(in_scope(scope, work), object(), wants_pieces=True)
        if waiting.call.pieces is not None:
            waiting.call.pieces.holds_turn = False
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
                    self._result = came_of(self._operation, ended())
        self._operation.end()

    _end = aclose


def _add(ready: deque[PieceT], kind: Callable[[Any], PieceT], data: str | bytes, channel: ChannelName) -> None:
    piece = kind(data)
    piece.channel = channel
    ready.append(piece)
