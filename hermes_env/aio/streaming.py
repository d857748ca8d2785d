"""The output of a command that runs, piece by piece, with `async for`."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from environments import CommandResult
from environments.listener import ChannelName
from hermes_env.aio.calls import check_turn
from hermes_env.aio.home import HomeLoop, until
from hermes_env.aio.pools import Work, limiter_for
from hermes_env.aio.threads import scope_of_caller, working

MOST_WAITING = 1_000_000
"""Bytes or characters that wait to be taken, above which the command has to wait."""
POLL = 0.1
"""Seconds between looks at whether a command that waits for its reader is to end."""


class TextPiece(str):
    """Text that a command has printed."""

    channel: ChannelName
    """Where it was printed: `"stdout"`, or `"stderr"` if that was asked for apart."""


class BytesPiece(bytes):
    """Bytes that a command has printed."""

    channel: ChannelName
    """Where they were printed, as for `TextPiece`."""


PieceT = TypeVar("PieceT", TextPiece, BytesPiece)
Run = Callable[[Callable[[str | bytes, ChannelName], None]], CommandResult]


class RunningStream:
    """A command that runs in a thread, and what it has printed that nobody has taken yet.

    Args:
        run: Runs it, and tells a callback of its output.
        is_over: Whether nobody waits for it any more for another reason than its scope.
        patience: Seconds that it may wait for its reader, as it can't be seen meanwhile that its time is up.
        session: What it has its turn in.
    """

    def __init__(self, run: Run, is_over: Callable[[], bool], patience: float, session: object) -> None:
        self._run = run
        self._is_over = is_over
        self._patience = patience
        self._session = session
        self._changed = threading.Condition()
        self._pieces: deque[tuple[str | bytes, ChannelName]] = deque()
        self._size = 0
        self._limiter = limiter_for(Work.STREAM)
        self._home = HomeLoop()
        self._news = anyio.Event()
        self._has_thread = False
        self.ended = anyio.Event()
        self.scope = scope_of_caller()
        self.result: CommandResult | None = None
        self.error: BaseException | None = None

    async def begin(self) -> None:
        """Begin, once there is a thread."""
        check_turn(self._session)
        await self._limiter.acquire_on_behalf_of(self)
        try:
            threading.Thread(target=copy_context().run, args=(self._work,), name="hermes-stream", daemon=True).start()
        except BaseException:
            self._limiter.release_on_behalf_of(self)
            raise
        self._has_thread = True

    def _work(self) -> None:
        try:
            with working(self.scope, self._home), self.scope.calling(self._wake):
                self.result = self._run(self._add)
        except BaseException as error:
            self.error = error
        finally:
            self._home.soon(self._note_end)

    def _note_end(self) -> None:
        self._limiter.release_on_behalf_of(self)
        self._home.cancel()
        self.ended.set()
        self._news.set()

    def _note_news(self) -> None:
        self._news.set()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _add(self, piece: str | bytes, channel: ChannelName) -> None:
        with self._changed:
            ends = time.monotonic() + self._patience
            while self._size >= MOST_WAITING and time.monotonic() < ends and not self._is_unwanted():
                self._changed.wait(POLL)
            is_first = not self._pieces
            self._pieces.append((piece, channel))
            self._size += len(piece)
        if is_first:
            self._home.soon(self._note_news)

    def _is_unwanted(self) -> bool:
        return self.scope.cancelled or self._is_over() or not self._home.soon(self._note_news)

    def take(self) -> tuple[str | bytes, ChannelName] | None:
        """Return what has come on one channel, if anything has."""
        with self._changed:
            if not self._pieces:
                return None
            channel = self._pieces[0][1]
            taken = []
            while self._pieces and self._pieces[0][1] == channel:
                taken.append(self._pieces.popleft()[0])
            self._size -= sum(map(len, taken))
            self._changed.notify_all()
        return taken[0][:0].join(taken), channel  # type: ignore[arg-type]  # all are of one kind

    async def news(self) -> None:
        """Wait until there may be something to take, or the command has ended."""
        self._news = anyio.Event()
        if not self._pieces and not self.ended.is_set():
            await self._news.wait()

    async def end(self) -> None:
        """End the command, if it has not ended."""
        self.scope.cancel()
        if self._has_thread:
            await until(self.ended)
        await self._home.close()


class OutputStream(Generic[PieceT]):
    """What a command prints, as it comes. The command begins when the first piece is asked for.

    Each piece is text or bytes, and knows its `channel`. At the end `result` has what came of the command. One that is
    not read makes its command wait. To leave the loop early ends the command: at once and awaited within
    `async with stream:`, or by `aclose`; else as soon as nobody holds the stream any more.

    Args:
        make: Makes what runs the command.
        kind: What a piece is.
    """

    def __init__(self, make: Callable[[], RunningStream], kind: Callable[[Any], PieceT]) -> None:
        self._make = make
        self._kind: Callable[[Any], PieceT] = kind
        self._running: RunningStream | None = None
        self._is_over = False

    @property
    def result(self) -> CommandResult:
        """What came of the command.

        Raises:
            RuntimeError: It has not ended, or failed.
        """
        if self._running is None or self._running.result is None:
            raise RuntimeError("the command has no result yet; take all pieces of the stream first")
        return self._running.result

    def __aiter__(self) -> AsyncIterator[PieceT]:
        return self

    async def __anext__(self) -> PieceT:
        if self._is_over:
            raise StopAsyncIteration
        try:
            running = self._running or await self._begun()
            await checkpoint()  # or a command that prints quickly would let no other task work
            while (taken := running.take()) is None:
                if running.ended.is_set():
                    break
                await running.news()
        except BaseException:
            await self.aclose()
            raise
        if taken is None:
            self._is_over = True
            if running.error:
                raise running.error
            raise StopAsyncIteration
        piece: PieceT = self._kind(taken[0])
        piece.channel = taken[1]
        return piece

    async def _begun(self) -> RunningStream:
        running = self._make()
        await running.begin()
        self._running = running
        weakref.finalize(self, running.scope.cancel).atexit = False  # left by a break, where nobody can await it
        return running

    async def aclose(self) -> None:
        """End the command, if it has not ended, and wait for that. Safe to call twice."""
        self._is_over = True
        if self._running:
            await self._running.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
