"""Calls from a task of asyncio or trio: work of the loop thread and of worker threads, awaited.

A task that is cancelled ends its work in the target before the await returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled, current_token

from environments import CallCancelledError, CancelScope, TerminalError
from environments.cancellation import current_scope, in_no_scope, on_scope_cancel
from environments.loop import AT_EXIT, Call, Piece, calling_back, current, in_worker
from environments.options import check_count

try:
    from sniffio import current_async_library_cvar as _library
except ImportError:  # anyio asks asyncio then
    _library = ContextVar("hermes_no_library", default=None)

T = TypeVar("T")
_P = ParamSpec("_P")
Work = Callable[[Call[T]], Awaitable[T]]
"""A coroutine function for the loop thread."""


class Home:
    """The event loop of a task.

    Args:
        native: The event loop of asyncio, or the token of trio's.
    """

    def __init__(self, native: object) -> None:
        self.event: type[asyncio.Event] = asyncio.Event
        self._native, self._method = weakref.ref(native), "call_soon_threadsafe"
        if not hasattr(native, self._method):
            import trio

            self.event, self._method = trio.Event, "run_sync_soon"  # type: ignore[assignment]  # as far as used
        self.thread = threading.get_ident()
        self.limiters: dict[str, anyio.CapacityLimiter] = {}
        """Bound the worker threads of each kind."""
        self._due: deque[Callable[[], object]] = deque()
        self._is_woken = False

    @staticmethod
    def of(native: object) -> Home:
        """Return the one of an event loop."""
        return _homes.get(native) or _homes.setdefault(native, Home(native))

    def soon(self, function: Callable[[], object]) -> bool:
        """Have the event loop call a function. In any thread. Many at once wake the event loop once.

        Returns:
            False if the event loop has ended.
        """
        self._due.append(function)
        if not self._is_woken:
            self._is_woken = True
            try:
                getattr(self._native(), self._method)(self._call_due)
            except (RuntimeError, AttributeError):  # it was closed, or collected
                self._is_woken = False
                self._due.clear()
                return False
        return True

    def _call_due(self) -> None:
        self._is_woken = False
        while self._due:
            self._due.popleft()()


_homes: weakref.WeakKeyDictionary[object, Home] = weakref.WeakKeyDictionary()


class Waiting:
    """The wait of a task for work of the loop thread. Coroutines of the work's callbacks run on the task's event loop.

    Args:
        work: The work.
        wants_pieces: Whether output is wanted.
    """

    def __init__(self, work: Work[Any], wants_pieces: bool = False) -> None:
        self._thread = thread = current()
        if thread.has_ended:
            raise TerminalError(AT_EXIT)
        self._token = current_token()
        self.home = home = Home.of(self._token.native_token)
        self._bell, self._taken = home.event(), 0
        self._callbacks: set[anyio.CancelScope] = set()
        """The coroutines of callbacks that run."""
        me = weakref.ref(self)  # what runs keeps neither a stream nor the task of a closed event loop

        def wake() -> None:
            if waiting := me():
                waiting.wake()

        def ring() -> None:  # on the loop thread
            if not home.soon(wake) and (waiting := me()):
                waiting.leave()

        self.call: Call[Any] = Call(work, object(), ring, wants_pieces)
        self.call.context.run(_waiting.set, me)
        self.call.context.run(_library.set, None)  # the loop thread's own library is asyncio
        thread.soon(thread.begin, self.call)

    def leave(self) -> None:
        """Have the work cancelled. Its end is not waited for."""
        self._thread.leave(self.call)

    def wake(self) -> None:
        """Have the task look again."""
        bell, self._bell = self._bell, self.home.event()
        bell.set()

    async def next(self) -> list[Piece]:
        """Wait for output and return it; nothing at the end. What was returned before has been received by then."""
        pieces = self.call.pieces
        if self._taken and pieces is not None:
            self._thread.soon(pieces.acknowledge, self._taken)
            self._taken = 0
            await checkpoint()  # a command that prints quickly leaves other tasks their turn
        while True:
            is_done = self.call.done  # nothing is printed behind that
            if pieces:
                taken = pieces.pop_all()
                self._taken = sum(len(data) for _, data in taken)
                return taken
            if is_done:
                return []
            await self._bell.wait()

    async def end(self, cancel: Callable[[], object] | None = None) -> None:
        """Cancel the work, by its coroutine unless `cancel` is given. Wait for its end, whatever cancels the task."""
        call, thread = self.call, self._thread
        if call.pieces is not None:
            thread.soon(call.pieces.drop)
        if cancel is None:  # behind the first step of the coroutine, which would never run the work
            thread.soon(lambda: call.task and thread.loop.call_soon(call.task.cancel))
        elif not call.done:
            cancel()
        try:
            await self._ended()
        finally:
            if (undo := call.undo) and call.error is None:
                await to_its_end(lambda _: undo(call.value))

    async def result(self) -> Any:  # noqa: ANN401
        """Return the value of work that is done, or raise its error."""
        if self._callbacks:
            await self._ended()
        return self.call.result()

    async def _ended(self) -> None:
        """Wait for the end of the work, and of its callbacks, which are cancelled then."""
        cancelled = None
        with anyio.CancelScope(shield=True):
            while not self.call.done or self._callbacks:
                bell = self._bell
                for scope in self._callbacks if self.call.done else ():
                    scope.cancel()
                try:
                    await bell.wait()
                except anyio.get_cancelled_exc_class() as error:  # `task.cancel()` of asyncio passes every shield
                    cancelled = error
        if cancelled:
            raise cancelled

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Have the event loop await something for another thread, with its context variables, until the call is over.

        Raises:
            CallCancelledError: The call is over, or the scope of the thread was cancelled.
        """

        async def settle() -> tuple[object, BaseException | None]:
            def end() -> None:
                self.home.soon(scope.cancel)

            with anyio.CancelScope() as scope, on_scope_cancel(end):
                self._callbacks.add(scope)
                try:
                    if self.call.done:
                        scope.cancel()
                    await checkpoint_if_cancelled()
                    return await awaitable, None
                except (Exception, SystemExit) as error:  # the latter would end the event loop
                    return None, error
                finally:
                    _close(awaitable)
                    self._callbacks.remove(scope)
                    self.wake()
            return None, _call_is_over()

        result, error = anyio.from_thread.run(settle, token=self._token)
        if error is not None:
            raise error
        return result


_waiting: ContextVar[weakref.ref[Waiting] | None] = ContextVar("hermes_waiting", default=None)
"""The call that the current thread or task works or calls back for, if it is not over."""


def _call_is_over() -> CallCancelledError:
    return CallCancelledError("a coroutine of a callback was cancelled, as its call is over")


def _close(awaitable: object) -> None:
    if inspect.iscoroutine(awaitable):  # Python warns of one that is never awaited
        awaitable.close()


def awaited_at_home(callback: Callable[_P, object]) -> Callable[_P, object]:
    """Return a function that calls a callback, which may be a coroutine function: its call's event loop awaits it."""
    bound = _waiting.get()

    @functools.wraps(callback)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> object:
        result = callback(*args, **kwargs)
        if not inspect.isawaitable(result):
            return result
        found = bound or _waiting.get()
        waiting = found and found()
        if waiting and waiting.home.thread != threading.get_ident():
            return waiting.result_of(result)
        _close(result)
        if found and not waiting:
            raise _call_is_over()
        raise TypeError(f"{callback!r} has to be awaited, and was called by a call that is not awaited itself")

    return call


async def awaited(
    work: Work[T],
    on_piece: Callable[[Any, bytes], object] | None = None,
    cancel: Callable[[], object] | None = None,
) -> T:
    """Have the loop thread do some work, and wait for it. Cancelled, or if a callback fails, the work ends first.

    Args:
        work: The work.
        on_piece: Receives each piece of output. Its result is awaited, if it can be.
        cancel: Cancels the work; None cancels the coroutine.
    """
    await checkpoint_if_cancelled()
    waiting = Waiting(work, on_piece is not None)
    try:
        while pieces := await waiting.next():
            with calling_back(waiting.call):
                for channel, data in pieces:
                    if on_piece and inspect.isawaitable(told := on_piece(channel, data)):
                        await told
    except GeneratorExit:  # the event loop was closed, and nothing can be awaited any more
        waiting.leave()
        raise
    except BaseException:
        await waiting.end(cancel)
        raise
    result: T = await waiting.result()
    return result


async def to_its_end(work: Work[T]) -> T:
    """Do the same for work that goes to its end also in a task that is cancelled, as every clean-up has to."""
    with anyio.CancelScope(shield=True), in_no_scope():
        result: T = await awaited(work, cancel=lambda: None)
    return result  # the type checker takes the scope for one that swallows an error


def in_scope(scope: CancelScope, work: Work[T]) -> Work[T]:
    """Return work that is done in a scope, which ends with the scope of the caller."""

    async def scoped(call: Call[T]) -> T:
        with on_scope_cancel(scope.cancel), scope.active():
            return await work(call)

    return scoped


_most = {"commands": 64, "scripts": 32}


def limit_threads(*, commands: int | None = None, scripts: int | None = None) -> None:
    """Set how many worker threads of each event loop may work at once. Further calls wait for their turn.

    Commands, processes, streams and files need none, and what is awaited in a callback has no bound.

    Args:
        commands: For hooks and rules, file calls that are recorded, and what can only block; 64 at first.
        scripts: For `aexecute_code`; 32 at first.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is below 1.
    """
    given = {"commands": commands, "scripts": scripts}
    _most.update({kind: check_count(kind, most) for kind, most in given.items() if most is not None})


def _bound(kind: str | None) -> AbstractAsyncContextManager[object]:
    if not kind or _waiting.get():  # in a callback: the thread of the outer call waits for this one
        return contextlib.nullcontext()
    limiters = Home.of(current_token().native_token).limiters
    limiter = limiters.setdefault(kind, anyio.CapacityLimiter(1))
    limiter.total_tokens = _most[kind]
    return limiter


async def in_thread(function: Callable[[], T], kind: str | None = None, undo: Callable[[T], object] | None = None) -> T:
    """Call a function on a worker thread, and return its result. Cancelled, its scope ends it, and it is waited for.

    Args:
        function: The function. It sees the context variables of the task. The task's event loop awaits the coroutines
            of its callbacks, see `awaited_at_home`.
        kind: Bounds how many work at once, see `limit_threads`; None is no bound.
        undo: Ends what the function has made, for a task that was cancelled just as it was done.
    """
    scope = CancelScope(outer=current_scope())

    async def work(call: Call[T]) -> T:
        value = await in_worker(function)
        call.undo = undo and (lambda made: in_worker(undo, made))
        return value

    async with _bound(kind):
        return await awaited(in_scope(scope, work), cancel=scope.cancel)
