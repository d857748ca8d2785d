"""Awaits work of the loop thread and of worker threads in a task of asyncio or trio.

Cancellation of the task ends the work in the target before the await returns. Unread output applies back-pressure to
the command.
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


class CallerLoop:
    """The event loop of the caller's task.

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
        """The limits on worker threads, by kind."""
        self._due: deque[Callable[[], object]] = deque()
        self._is_woken = False

    @staticmethod
    def of(native: object) -> CallerLoop:
        """Return the object for an event loop."""
        return _caller_loops.get(native) or _caller_loops.setdefault(native, CallerLoop(native))

    def soon(self, function: Callable[[], object]) -> bool:
        """Schedule a function on the event loop, from any thread. Several functions wake the loop once.

        Returns:
            False if the event loop has ended.
        """
        self._due.append(function)
        if not self._is_woken:
            self._is_woken = True
            try:
                getattr(self._native(), self._method)(self._call_due)
            except (RuntimeError, AttributeError):  # the loop was closed, or collected
                self._is_woken = False
                self._due.clear()
                return False
        return True

    def _call_due(self) -> None:
        self._is_woken = False
        while self._due:
            self._due.popleft()()


_caller_loops: weakref.WeakKeyDictionary[object, CallerLoop] = weakref.WeakKeyDictionary()


class PendingCall:
    """A task's call of the loop thread. Coroutines of callbacks run on the task's event loop.

    Args:
        work: The work.
        wants_pieces: True if the task reads output.
    """

    def __init__(self, work: Work[Any], wants_pieces: bool = False) -> None:
        self._thread = thread = current()
        if thread.has_ended:
            raise TerminalError(AT_EXIT)
        self._token = current_token()
        self.caller = caller = CallerLoop.of(self._token.native_token)
        self._changed, self._taken = caller.event(), 0
        self._callbacks: set[anyio.CancelScope] = set()
        """The running coroutines of callbacks."""
        me = weakref.ref(self)  # running work must not keep a stream, or the task of a closed event loop, alive

        def wake() -> None:
            if pending := me():
                pending.wake()

        def notify() -> None:  # on the loop thread
            if not caller.soon(wake) and (pending := me()):
                pending.leave()

        self.call: Call[Any] = Call(work, object(), notify, wants_pieces)
        self.call.context.run(_pending.set, me)
        self.call.context.run(_library.set, None)  # the loop thread's own library is asyncio
        thread.soon(thread.begin, self.call)

    def leave(self) -> None:
        """Cancel the work without waiting for its end."""
        self._thread.leave(self.call)

    def wake(self) -> None:
        """Wake the task to check for output and for the end."""
        changed, self._changed = self._changed, self.caller.event()
        changed.set()

    async def next(self) -> list[Piece]:
        """Wait for output and return the pieces; an empty list at the end. Acknowledges the output returned before."""
        pieces = self.call.pieces
        if self._taken and pieces is not None:
            self._thread.soon(pieces.acknowledge, self._taken)
            self._taken = 0
            await checkpoint()  # else a command that prints quickly would starve other tasks
        while True:
            is_done = self.call.done  # read first: no output follows the end
            if pieces:
                taken = pieces.pop_all()
                self._taken = sum(len(data) for _, data in taken)
                return taken
            if is_done:
                return []
            await self._changed.wait()

    async def end(self, cancel: Callable[[], object] | None = None) -> None:
        """Cancel the work by `cancel`, or cancel the coroutine. Wait for the end, also in a cancelled task."""
        call, thread = self.call, self._thread
        if call.pieces is not None:
            thread.soon(call.pieces.drop)
        if cancel is None:  # only after the coroutine's first step: cancelled earlier, it would never run the work
            thread.soon(lambda: call.task and thread.loop.call_soon(call.task.cancel))
        elif not call.done:
            cancel()
        try:
            await self._ended()
        finally:
            if (undo := call.undo) and call.error is None:
                await run_to_end(lambda _: undo(call.value))

    async def result(self) -> Any:  # noqa: ANN401
        """Return the value of finished work, or raise the error."""
        if self._callbacks:
            await self._ended()
        return self.call.result()

    async def _ended(self) -> None:
        """Wait for the end of the work, then cancel the callbacks and wait for their end."""
        cancelled = None
        with anyio.CancelScope(shield=True):
            while not self.call.done or self._callbacks:
                changed = self._changed
                for scope in self._callbacks if self.call.done else ():
                    scope.cancel()
                try:
                    await changed.wait()
                except anyio.get_cancelled_exc_class() as error:  # `task.cancel()` of asyncio passes every shield
                    cancelled = error
        if cancelled:
            raise cancelled

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Run another thread's awaitable on the event loop, with the thread's context variables.

        The end of the call cancels the awaitable.

        Raises:
            CallCancelledError: The call is over, or the scope of the thread was cancelled.
        """

        async def settle() -> tuple[object, BaseException | None]:
            def end() -> None:
                self.caller.soon(scope.cancel)

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


_pending: ContextVar[weakref.ref[PendingCall] | None] = ContextVar("hermes_pending_call", default=None)
"""The running call for which the current thread or task works or calls back."""


def _call_is_over() -> CallCancelledError:
    return CallCancelledError("a coroutine of a callback was cancelled, as its call is over")


def _close(awaitable: object) -> None:
    if inspect.iscoroutine(awaitable):  # Python warns of a coroutine that is never awaited
        awaitable.close()


def awaited_on_callers_loop(callback: Callable[_P, object]) -> Callable[_P, object]:
    """Wrap a callback so that the caller's event loop awaits its coroutines. Plain functions are called as before."""
    bound = _pending.get()

    @functools.wraps(callback)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> object:
        result = callback(*args, **kwargs)
        if not inspect.isawaitable(result):
            return result
        found = bound or _pending.get()
        pending = found and found()
        if pending and pending.caller.thread != threading.get_ident():
            return pending.result_of(result)
        _close(result)
        if found and not pending:
            raise _call_is_over()
        raise TypeError(f"{callback!r} has to be awaited, and was called by a call that is not awaited itself")

    return call


async def awaited(
    work: Work[T],
    on_piece: Callable[[Any, bytes], object] | None = None,
    cancel: Callable[[], object] | None = None,
) -> T:
    """Run work on the loop thread, and return its result. Cancellation, or a failed callback, first ends the work.

    Args:
        work: The work.
        on_piece: Receives each piece of output. An awaitable result is awaited.
        cancel: Cancels the work; None cancels the coroutine.
    """
    await checkpoint_if_cancelled()
    pending = PendingCall(work, on_piece is not None)
    try:
        while pieces := await pending.next():
            with calling_back(pending.call):
                for channel, data in pieces:
                    if on_piece and inspect.isawaitable(result := on_piece(channel, data)):
                        await result
    except GeneratorExit:  # the event loop was closed, so awaiting is impossible
        pending.leave()
        raise
    except BaseException:
        await pending.end(cancel)
        raise
    value: T = await pending.result()
    return value


async def run_to_end(work: Work[T]) -> T:
    """Run work on the loop thread to its end, also in a cancelled task: for clean-up."""
    with anyio.CancelScope(shield=True), in_no_scope():
        result: T = await awaited(work, cancel=lambda: None)
    return result  # not inside the block: mypy assumes that the scope swallows errors


def in_scope(scope: CancelScope, work: Work[T]) -> Work[T]:
    """Wrap work to run in a scope that ends with the caller's scope."""

    async def scoped(call: Call[T]) -> T:
        with on_scope_cancel(scope.cancel), scope.active():
            return await work(call)

    return scoped


_thread_limits = {"commands": 64, "scripts": 32}


def limit_threads(*, commands: int | None = None, scripts: int | None = None) -> None:
    """Set the number of worker threads of each event loop. Further calls wait.

    Commands, processes, streams and files use no worker thread. Calls inside a callback are not limited.

    Args:
        commands: For hooks and rules, recorded file calls, and calls that can only block; 64 by default.
        scripts: For `aexecute_code`; 32 by default.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is below 1.
    """
    given = {"commands": commands, "scripts": scripts}
    _thread_limits.update({kind: check_count(kind, most) for kind, most in given.items() if most is not None})


def _limiter(kind: str | None) -> AbstractAsyncContextManager[object]:
    if not kind or _pending.get():  # in a callback: the thread of the outer call waits for this one
        return contextlib.nullcontext()
    limiters = CallerLoop.of(current_token().native_token).limiters
    limiter = limiters.setdefault(kind, anyio.CapacityLimiter(1))
    limiter.total_tokens = _thread_limits[kind]
    return limiter


async def in_thread(function: Callable[[], T], kind: str | None = None, undo: Callable[[T], object] | None = None) -> T:
    """Call a function on a worker thread, and return the result. Cancellation cancels the scope and waits for the end.

    Args:
        function: The function, called with the context variables of the task. The task's event loop awaits coroutines
            of callbacks, see `awaited_on_callers_loop`.
        kind: The limit that applies, see `limit_threads`; None is no limit.
        undo: Releases the function's result if the task was cancelled just as the function returned.
    """
    scope = CancelScope(outer=current_scope())

    async def work(call: Call[T]) -> T:
        value = await in_worker(function)
        call.undo = undo and (lambda made: in_worker(undo, made))
        return value

    async with _limiter(kind):
        return await awaited(in_scope(scope, work), cancel=scope.cancel)
