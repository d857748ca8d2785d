"""Work of the loop thread and of worker threads, awaited. Cancelled, it ends in the target before the await returns."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import RunVar, checkpoint, checkpoint_if_cancelled, current_token

from environments import CallCancelledError, CancelScope, TerminalError, UnsupportedError
from environments.cancellation import current_scope, ended_in_scope, in_no_scope
from environments.loop import AT_THE_END, Call, Piece, calling_back, current, in_worker, work_of
from environments.observation.observation import UNOBSERVED
from environments.options import check_count
from environments.output import Channel

try:
    from sniffio import current_async_library_cvar as _library
except ImportError:  # anyio asks asyncio then
    _library = ContextVar("hermes_no_library", default=None)

T = TypeVar("T")
_P = ParamSpec("_P")
Work = Callable[[Call[T]], Awaitable[T]]
"""A coroutine function for the loop thread."""


class Home:
    """The event loop of a call: coroutines of the call's callbacks run on it, and none outlives the call."""

    def __init__(self) -> None:
        outer = _home.get()
        self.depth: int = outer.depth + 1 if outer else 0
        """The number of calls whose callbacks this call is part of."""
        self._token, self._thread = current_token(), threading.get_ident()
        self._running: set[Callable[[], None]] = set()  # changed on the event loop alone
        self._ended: anyio.Event | None = None
        self._is_closed = False

    def soon(self, function: Callable[[], object]) -> None:
        """Have the event loop call a function, from any thread. Raises RuntimeError if the event loop has ended."""
        native: Any = self._token.native_token
        (getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe)(function)

    def result_of(self, awaitable: Awaitable[object]) -> object:
        """Await something on the event loop, for another thread and with its context variables.

        Raises:
            BaseException: The error of the awaitable.
            CallCancelledError: The call is over, or the scope of the thread was cancelled.
        """
        scope: anyio.CancelScope | None = None
        is_over = False

        def cancel() -> None:
            nonlocal is_over
            is_over = True
            if scope:
                scope.cancel()

        async def settle() -> tuple[object, BaseException | None]:
            nonlocal scope
            if not (is_over or self._is_closed):
                self._running.add(cancel)
                try:
                    with anyio.CancelScope() as scope:
                        return await awaitable, None
                except (Exception, SystemExit) as error:
                    return None, error
                finally:
                    self._running.discard(cancel)
                    if self._ended and not self._running:
                        self._ended.set()
            else:
                _close(awaitable)
            return None, CallCancelledError("a coroutine of a callback was cancelled, as its call is over")

        if threading.get_ident() == self._thread:
            _close(awaitable)
            raise TerminalError("a callback has to be awaited, and was called on the event loop by a call that blocks")
        with ended_in_scope(lambda: self.soon(cancel)):
            result, error = anyio.from_thread.run(settle, token=self._token)
        if error is not None:
            raise error
        return result

    async def close(self) -> None:
        """Cancel all coroutines, let no more begin, and wait for the end of each."""
        self._is_closed = True
        for cancel in list(self._running):
            cancel()
        if self._running:
            self._ended = anyio.Event()
            await _until(self._ended)


def _close(awaitable: object) -> None:
    if inspect.iscoroutine(awaitable):  # Python warns of one that is never awaited
        awaitable.close()


_home: ContextVar[Home | None] = ContextVar("hermes_home", default=None)


def awaited_at_home(callback: Callable[_P, object]) -> Callable[_P, object]:
    """Return a function that calls a callback, which may be a coroutine function: its call's event loop awaits it."""
    bound = _home.get()

    @functools.wraps(callback)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> object:
        result = callback(*args, **kwargs)
        home = bound or _home.get()
        if inspect.isawaitable(result):
            if home:
                return home.result_of(result)
            _close(result)
            raise TypeError(f"{callback!r} has to be awaited, and was called by a call that is not awaited itself")
        return result

    return call


async def _until(event: anyio.Event) -> None:
    with anyio.CancelScope(shield=True):
        while not event.is_set():
            with contextlib.suppress(anyio.get_cancelled_exc_class()):  # `task.cancel()` of asyncio passes every shield
                await event.wait()


class Waiting:
    """A call on the loop thread, and the bell by which that thread wakes the task.

    Args:
        work: The work.
        owner: The task or stream that waits.
        wants_pieces: Whether output is wanted.
    """

    def __init__(self, work: Work[Any], owner: object, wants_pieces: bool = False) -> None:
        self._thread = current()
        if self._thread.has_ended:
            raise TerminalError(AT_THE_END)
        self._bell, self._is_rung = anyio.Event(), False
        self._home = Home()
        ring = weakref.WeakMethod(self._ring)  # a stream that is dropped is collected while its command runs
        self.call: Call[Any] = Call(work, owner, lambda: (found := ring()) and found(), wants_pieces)
        self.call.context.run(_home.set, self._home)
        self.call.context.run(_library.set, None)  # the loop thread's own library is asyncio
        self._thread.soon(self._thread.begin, self.call)

    def _ring(self) -> None:  # on the loop thread
        if not self._is_rung:
            self._is_rung = True
            try:
                self._home.soon(self._bell.set)
            except RuntimeError:  # the event loop has ended
                self._thread.leave(self.call)

    async def news(self) -> None:
        """Wait for output, or for the end."""
        await self._bell.wait()
        self._reset()

    def _reset(self) -> None:
        self._bell = anyio.Event()
        self._is_rung = False

    def take(self) -> list[Piece]:
        """Return the output that waits."""
        return self.call.pieces.take() if self.call.pieces else []

    def note_taken(self, pieces: list[Piece]) -> None:
        """Note that output was received: there is room for more."""
        if self.call.pieces is not None:
            self._thread.soon(self.call.pieces.taken, sum(len(data) for _, data in pieces))

    async def end(self, cancel: Callable[[], object] | None = None) -> None:
        """Cancel the work, and wait for its end, whatever cancels the task meanwhile.

        Args:
            cancel: Cancels it; None cancels the coroutine.
        """
        call, thread = self.call, self._thread
        if call.pieces is not None:
            thread.soon(call.pieces.drop)
        if cancel:
            cancel()
        else:  # behind the first step of the task, which would never run the work
            thread.soon(lambda: call.task and thread.loop.call_soon(call.task.cancel))
        while not call.done:
            await _until(self._bell)
            self._reset()
        await self._home.close()
        if (undo := call.undo) and call.error is None:
            await to_its_end(lambda _: undo(call.value))

    async def result(self) -> Any:  # noqa: ANN401
        """Return the value of work that is done, or raise its error."""
        await self._home.close()
        return self.call.result()


async def awaited(
    work: Work[T],
    on_piece: Callable[[Channel, bytes], object] | None = None,
    cancel: Callable[[], object] | None = None,
) -> T:
    """Have the loop thread do some work, and wait for it. Cancelled, or if a callback fails, the work ends first.

    Args:
        work: The work.
        on_piece: Receives each piece of output. Its result is awaited, if it can be.
        cancel: Cancels the work; None cancels the coroutine.
    """
    await checkpoint_if_cancelled()
    waiting = Waiting(work, anyio.get_current_task(), on_piece is not None)
    try:
        while True:
            if on_piece and (pieces := waiting.take()):
                with calling_back(waiting.call):
                    for channel, data in pieces:
                        if inspect.isawaitable(told := on_piece(channel, data)):
                            await told
                waiting.note_taken(pieces)
                await checkpoint()  # a command that prints quickly leaves other tasks their turn
            elif waiting.call.done:
                break
            else:
                await waiting.news()
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


# Worker threads.


def in_scope(scope: CancelScope, work: Work[T]) -> Work[T]:
    """Return work that is done in a scope, which ends with the scope of the caller."""

    async def scoped(call: Call[T]) -> T:
        with ended_in_scope(scope.cancel), scope.active():
            return await work(call)

    return scoped


async def in_thread(function: Callable[[], T], *, limiter: anyio.CapacityLimiter | None = None) -> T:
    """Call a function on a worker thread, and return its result. Cancelled, its scope ends it, and it is waited for.

    Args:
        function: The function. It sees the context variables of the task. The task's event loop awaits the coroutines
            of its callbacks, see `awaited_at_home`.
        limiter: Bounds how many work at once; None is no bound.
    """
    scope = CancelScope(outer=current_scope())
    async with limiter or contextlib.nullcontext():
        return await awaited(in_scope(scope, lambda _: in_worker(function)), cancel=scope.cancel)


_most = {"commands": 64, "scripts": 32}
_limiters: RunVar[dict[tuple[str, int], anyio.CapacityLimiter]] = RunVar("hermes_thread_limiters")


def limit_threads(
    *,
    commands: int | None = None,
    streams: int | None = None,
    scripts: int | None = None,
    waits: int | None = None,
) -> None:
    """Set how many threads of each event loop may work at once. Further calls wait for their turn.

    A command, a stream and a process need none.

    Args:
        commands: For file calls, hooks and rules; 64 at first.
        streams: Without effect: a stream needs no thread.
        scripts: For `aexecute_code`; 32 at first.
        waits: Without effect: `AsyncPool.environment` needs no thread.

    Raises:
        TypeError: A number is not whole.
        ValueError: A number is below 1.
    """
    given = {"commands": commands, "streams": streams, "scripts": scripts, "waits": waits}
    _most.update({kind: check_count(kind, most) for kind, most in given.items() if most is not None})


def limiter_for(kind: str) -> anyio.CapacityLimiter:
    """Return the bound of the threads of the running event loop for one kind of work.

    The calls of a callback have a bound of their own: the thread of the outer call waits for them.
    """
    try:
        limiters = _limiters.get()
    except LookupError:
        limiters = {}
        _limiters.set(limiters)
    home = _home.get()
    limiter = limiters.setdefault((kind, home.depth + 1 if home else 0), anyio.CapacityLimiter(1))
    limiter.total_tokens = _most[kind]
    return limiter


# Methods.


class Wrapper(Protocol):
    """A thing with methods that are awaited, and the thing beneath, whose methods block."""

    @property
    def sync(self) -> object:
        """The thing beneath."""


def run_of(method: Callable[..., object]) -> Callable[..., Awaitable[Any]]:
    """Return the coroutine function of the loop thread that a bound method waits for. Its first argument is the call.

    Raises:
        UnsupportedError: The method blocks.
    """
    if work := work_of(method):
        return work
    raise UnsupportedError(f"{method.__qualname__} blocks, and cannot be awaited; call it in a thread")


def as_coroutine(
    method: Callable[Concatenate[Any, _P], T], kind: str | None = None, *, to_end: bool = False
) -> Callable[Concatenate[Wrapper, _P], Coroutine[Any, Any, T]]:
    """Return a method that awaits the work of the method of the same name beneath, or else calls that in a thread.

    Args:
        method: That method, of the base class.
        kind: The bound of how many are at work at once; None is no bound.
        to_end: Whether it goes to its end also in a task that is cancelled.
    """

    @functools.wraps(method, updated=())  # without the mark of an abstract method
    async def call(self: Wrapper, /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        beneath = getattr(self.sync, method.__name__)
        work = None if kind and _is_observed(self.sync) else work_of(beneath)
        if to_end:
            return await to_its_end(
                lambda call: work(call, *args, **kwargs) if work else in_worker(partial(beneath, *args, **kwargs))
            )
        async with limiter_for(kind) if kind else contextlib.nullcontext():
            if work:
                return await awaited(lambda call: work(call, *args, **kwargs))
            return await in_thread(partial(beneath, *args, **kwargs))

    return call


def _is_observed(env: Any) -> bool:  # noqa: ANN401
    """Return whether calls of an environment are told to an observer, which may block."""
    return env.observation.observed("file", "", dict) is not UNOBSERVED


async def asked(thing: object, name: str) -> Any:  # noqa: ANN401
    """Return the value of a property that may have to start the target."""
    if work := getattr(getattr(type(thing), name).fget, "work", None):
        return await awaited(partial(work, thing))
    return await in_thread(lambda: getattr(thing, name), limiter=limiter_for("commands"))
