"""Work of the loop thread and of worker threads, awaited. Cancelled, it ends in the target before the await returns."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import RunVar, checkpoint, checkpoint_if_cancelled, current_token

from environments import CallCancelledError, CancelScope, TerminalError
from environments.cancellation import current_scope, ended_in_scope, in_no_scope
from environments.loop import AT_THE_END, Call, Piece, calling_back, current, in_worker, work_of
from environments.options import check_count

try:
    from sniffio import current_async_library_cvar as _library
except ImportError:  # anyio asks asyncio then
    _library = ContextVar("hermes_no_library", default=None)

T = TypeVar("T")
_P = ParamSpec("_P")
Work = Callable[[Call[T]], Awaitable[T]]
"""A coroutine function for the loop thread."""


class Waiting:
    """The wait of a task for work of the loop thread. Coroutines of the work's callbacks run on the task's event loop.

    Args:
        work: The work.
        owner: The task or stream that waits.
        wants_pieces: Whether output is wanted.
    """

    def __init__(self, work: Work[Any], owner: object, wants_pieces: bool = False) -> None:
        self._thread = current()
        if self._thread.has_ended:
            raise TerminalError(AT_THE_END)
        self._token, self.home = current_token(), threading.get_ident()
        native: Any = self._token.native_token
        self._soon = getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe
        self._bell, self._is_rung, self._taken = anyio.Event(), False, 0
        self._callbacks: dict[anyio.CancelScope, anyio.Event] = {}  # coroutines that run, with the end of each
        self._is_over = False
        ring = weakref.WeakMethod(self._ring)  # what runs keeps neither a stream nor the task of a closed event loop
        self.call: Call[Any] = Call(work, owner, lambda: (found := ring()) and found(), wants_pieces)
        self.call.context.run(_waiting.set, weakref.ref(self))
        self.call.context.run(_library.set, None)  # the loop thread's own library is asyncio
        self._thread.soon(self._thread.begin, self.call)

    def _ring(self) -> None:  # on the loop thread
        if not self._is_rung:
            self._is_rung = True
            try:
                self._soon(self._wake)
            except RuntimeError:  # the event loop has ended
                self.leave()

    def leave(self) -> None:
        """Have the work cancelled. Its end is not waited for."""
        self._thread.leave(self.call)

    def _wake(self) -> None:
        bell, self._bell, self._is_rung = self._bell, anyio.Event(), False
        bell.set()

    async def next(self) -> list[Piece]:
        """Wait for output and return it; nothing at the end. What was returned before has been received by then."""
        pieces = self.call.pieces
        if self._taken and pieces is not None:
            self._thread.soon(pieces.taken, self._taken)
            self._taken = 0
            await checkpoint()  # a command that prints quickly leaves other tasks their turn
        while True:
            is_done = self.call.done  # nothing is printed behind that
            if pieces:
                taken = pieces.take()
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
        while not call.done:
            await _until(self._bell)
        await self._end_callbacks()
        if (undo := call.undo) and call.error is None:
            await to_its_end(lambda _: undo(call.value))

    async def result(self) -> Any:  # noqa: ANN401
        """Return the value of work that is done, or raise its error."""
        await self._end_callbacks()
        return self.call.result()

    async def _end_callbacks(self) -> None:
        self._is_over = True
        for scope in self._callbacks:
            scope.cancel()
        while self._callbacks:
            await _until(next(iter(self._callbacks.values())))

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Have the event loop await something for another thread, with its context variables, until the call is over.

        Raises:
            CallCancelledError: The call is over, or the scope of the thread was cancelled.
        """

        async def settle() -> tuple[object, BaseException | None]:
            with anyio.CancelScope() as scope, ended_in_scope(lambda: self._soon(scope.cancel)):
                over = self._callbacks[scope] = anyio.Event()
                try:
                    if self._is_over:
                        scope.cancel()
                    await checkpoint_if_cancelled()
                    return await awaitable, None
                except (Exception, SystemExit) as error:  # the latter would end the event loop
                    return None, error
                finally:
                    _close(awaitable)
                    del self._callbacks[scope]
                    over.set()
            return None, _over()

        result, error = anyio.from_thread.run(settle, token=self._token)
        if error is not None:
            raise error
        return result


_waiting: ContextVar[weakref.ref[Waiting] | None] = ContextVar("hermes_waiting", default=None)
"""The call that the current thread or task works or calls back for, if it is not over."""


def _over() -> CallCancelledError:
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
        if found and (waiting := found()) and waiting.home != threading.get_ident():
            return waiting.result_of(result)
        _close(result)
        if found and not found():
            raise _over()
        raise TypeError(f"{callback!r} has to be awaited, and was called by a call that is not awaited itself")

    return call


async def _until(event: anyio.Event) -> None:
    with anyio.CancelScope(shield=True):
        while not event.is_set():
            with contextlib.suppress(anyio.get_cancelled_exc_class()):  # `task.cancel()` of asyncio passes every shield
                await event.wait()


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
    waiting = Waiting(work, ("task", anyio.get_current_task().id), on_piece is not None)
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
        with ended_in_scope(scope.cancel), scope.active():
            return await work(call)

    return scoped


_most = {"commands": 64, "scripts": 32}
_limiters: RunVar[dict[str, anyio.CapacityLimiter]] = RunVar("hermes_thread_limiters")


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
    limiters = _limiters.get({})
    _limiters.set(limiters)
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


# Methods and properties of a thing that is awaited, made of those of the thing beneath.


class Block:
    """Something that ends with its `async with` block."""

    async def _end(self) -> None:
        """End it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()


def is_observed(thing: object) -> bool:
    """Return whether an environment's operations have observers, which may block."""
    observation = getattr(thing, "observation", None)
    return observation is not None and observation.is_observed


def as_coroutine(
    method: Callable[Concatenate[Any, _P], T], *, to_end: bool = False, path: str = "sync"
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, T]]:
    """Return a method that awaits the work of the method of the same name beneath.

    One that has no work is called on a worker thread, as is one that an observer is told of.

    Args:
        method: That method, of the base class.
        to_end: Whether it goes to its end also in a task that is cancelled.
        path: Where the thing beneath is.
    """

    @functools.wraps(method, updated=())  # without the mark of an abstract method
    async def call(self: object, /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        thing = attrgetter(path)(self)
        beneath = getattr(thing, method.__name__)
        if work := None if is_observed(thing) else work_of(beneath):
            return await (to_its_end if to_end else awaited)(lambda call: work(call, *args, **kwargs))
        if to_end:
            return await to_its_end(lambda _: in_worker(partial(beneath, *args, **kwargs)))
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
