"""Cancellation: ending what runs on behalf of someone who no longer waits for it."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from functools import partial
from typing import Generic, ParamSpec, Protocol, TypeVar

from environments.errors import CallCancelledError, TerminalError

T = TypeVar("T")


class holding(Generic[T]):  # noqa: N801  # it is called as a function is
    """Give a context variable a value in the block, and behind it the one it had.

    It is used once. A generator would cost several times as much, and a command enters some of these.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token: Token[T] = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


_current: ContextVar[CancelScope | None] = ContextVar("hermes_cancel_scope", default=None)
_limit: ContextVar[StartLimit | None] = ContextVar("hermes_start_limit", default=None)


class Stoppable(Protocol):
    """What may be left of what was done in a scope."""

    def end(self) -> None:
        """End it. It raises TerminalError if it can't."""


_Stoppable = TypeVar("_Stoppable", bound=Stoppable)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class CancelScope:
    """What is called inside `with scope.active():` ends when `scope.cancel()` is called, from any thread.

    A command is interrupted, and its result says so; `start` and what moves files raise `CallCancelledError`. The same
    holds for what is called in the scope later on. A process that `start` has returned goes on: its handle ends it.

    The scope holds for the thread that entered it, and may be entered by several. A script's tool calls run in the
    script's scope, so that nothing they started outlives the script.

    Args:
        is_trusted: Whether the session's owner asked for what is done in the scope, and not a script that nobody read.
        outer: A scope around it, which is asked for its trust and keeps what may be left. It ends this one only where
            `ended_in_scope` says so.
    """

    def __init__(self, *, is_trusted: bool = True, outer: CancelScope | None = None) -> None:
        self.is_trusted: bool = outer.is_trusted if outer else is_trusted
        self._outer = outer
        self._lock = threading.Lock()
        self._callbacks: set[Callable[[], object]] = set()
        self._scope_processes: dict[object, Stoppable] = {}
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End what runs in this scope, and refuse what would start in it from now on."""
        with self._lock:
            self._cancelled = True
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def scope_processes(self, key: object, make: Callable[[], _Stoppable]) -> _Stoppable:
        """Return what notes, for one environment, what may be left of this scope; made when it is first asked for."""
        if self._outer:
            return self._outer.scope_processes(key, make)
        with self._lock:
            found = self._scope_processes.get(key)
            if found is None:
                found = self._scope_processes[key] = make()
            return found  # type: ignore[return-value]  # one key has remains of one kind

    @property
    def has_scope_processes(self) -> bool:
        """Whether anything may be left of it."""
        return bool(self._scope_processes)

    def end_scope_processes(self) -> None:
        """End what the scope, once it is cancelled, has left behind, such as processes in the background.

        Raises:
            TerminalError: Something could not be ended. All the rest was.
        """
        with self._lock:
            remains, self._scope_processes = list(self._scope_processes.values()), {}
        failure: TerminalError | None = None
        for each in remains:
            try:
                each.end()
            except TerminalError as error:
                failure = error
        if failure:
            raise failure

    def active(self) -> AbstractContextManager[None]:
        """Make this the scope of everything the current thread does in the block."""
        return holding(_current, self)

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Have `callback` called once if the scope is cancelled while the block runs, or was before it."""
        entry = partial(callback)  # one that is given twice, such as in a block within another, is there twice
        with self._lock:
            self._callbacks.add(entry)
            already = self._cancelled
        try:
            if already:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.discard(entry)


def current_scope() -> CancelScope | None:
    """Return the scope the current thread works in, if any."""
    return _current.get()


def check_scope() -> None:
    """Raise CallCancelledError if the scope that the current thread works in was cancelled."""
    scope = _current.get()
    if scope and scope.cancelled:
        raise CallCancelledError("the scope that it was called in was cancelled, so that it was not done")


def in_no_scope() -> AbstractContextManager[None]:
    """Let the current thread be in no scope in the block, such as to remove what a cancelled call has left."""
    return holding(_current, None)


def ended_in_scope(callback: Callable[[], None]) -> AbstractContextManager[None]:
    """Have `callback` called if the scope of the current thread, if there is one, is cancelled in the block."""
    scope = _current.get()
    return scope.calling(callback) if scope else contextlib.nullcontext()


def cancellable(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that raises CallCancelledError in a cancelled scope, and whatever fails because it is one."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        check_scope()
        try:
            return function(*args, **kwargs)
        except Exception:
            check_scope()
            raise

    return call


class StartLimit:
    """How long targets may take to start for what is done in a block, see `start_limit`.

    Args:
        seconds: The limit. Its clock begins with the first start that is waited for.
        interrupted: Asked now and then whether to stop waiting for a start at once.
        outer: The limit around it, which goes on to hold.
    """

    def __init__(
        self, seconds: float, interrupted: Callable[[], bool] | None = None, outer: StartLimit | None = None
    ) -> None:
        self.seconds: float = min(seconds, outer.seconds) if outer else seconds
        self._asked = [interrupted] if interrupted else []
        self._outer = outer
        self._ends = math.inf

    @property
    def can_be_interrupted(self) -> bool:
        """Whether there is anything to ask."""
        return bool(self._asked) or bool(self._outer and self._outer.can_be_interrupted)

    @property
    def interrupted(self) -> bool:
        """Whether to stop waiting at once."""
        return any(ask() for ask in self._asked) or bool(self._outer and self._outer.interrupted)

    @property
    def left(self) -> float:
        """Seconds that are left; not below 0."""
        if self._ends == math.inf:
            self._ends = time.monotonic() + self.seconds
        left = max(0.0, self._ends - time.monotonic())
        return min(left, self._outer.left) if self._outer else left


@contextlib.contextmanager
def start_limit(seconds: float, *, interrupted: Callable[[], bool] | None = None) -> Iterator[StartLimit]:
    """Stop a target's start that the current thread waits for in the block, if it takes longer than this.

    `StartStoppedError` is then raised. The time limit of a command does not bound its target's start. A limit around
    this one goes on to hold.

    Args:
        seconds: Seconds from when a start is first waited for in the block. `math.inf` sets no limit.
        interrupted: Asked some times a second while a start is waited for; true stops it.
    """
    limit = StartLimit(seconds, interrupted, _limit.get())
    with holding(_limit, limit):
        yield limit


def current_start_limit() -> StartLimit | None:
    """Return the limit that holds for the current thread's starts, if any."""
    return _limit.get()
