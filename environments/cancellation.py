"""Cancellation of work whose caller no longer waits: cancel scopes and time limits for starts."""

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


class holding(Generic[T]):  # noqa: N801  # called like a function
    """Set a context variable for the block and restore the previous value afterwards. For one use.

    A generator would cost several times as much, and each command enters a few of these blocks.
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
    """Processes that the commands of a scope left running in an environment."""

    def end(self) -> None:
        """End the processes. Raises TerminalError on failure."""


_Stoppable = TypeVar("_Stoppable", bound=Stoppable)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class CancelScope:
    """Ends all calls made inside `with scope.active():` when any thread calls `scope.cancel()`.

    A running command is interrupted, and its result is marked so; `start` and file methods raise `CallCancelledError`.
    Later calls in the scope end likewise. A process returned by `start` keeps running: end it through the handle.

    The scope applies to each thread that enters it. A script's tool calls run in the script's scope, so that no process
    of a tool call outlives the script.

    Args:
        is_trusted: True for calls of the session's owner; False for calls of an unreviewed script.
        outer: Enclosing scope. It defines the trust and stores the processes left running. Its cancellation ends this
            scope only through `on_scope_cancel`.
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
        """True once `cancel` was called."""
        return self._cancelled

    def cancel(self) -> None:
        """End the calls that run in this scope, and refuse later ones."""
        with self._lock:
            self._cancelled = True
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback()

    def scope_processes(self, key: object, make: Callable[[], _Stoppable]) -> _Stoppable:
        """Return the processes that the scope's commands left running in one environment, created on first use."""
        if self._outer:
            return self._outer.scope_processes(key, make)
        with self._lock:
            found = self._scope_processes.get(key)
            if found is None:
                found = self._scope_processes[key] = make()
            return found  # type: ignore[return-value]  # one key has one type

    @property
    def has_scope_processes(self) -> bool:
        """True if a command may have left a process running."""
        return bool(self._scope_processes)

    def end_scope_processes(self) -> None:
        """End the processes that the commands of this cancelled scope left running, such as background jobs.

        Raises:
            TerminalError: A process could not be ended. All others were.
        """
        with self._lock:
            left, self._scope_processes = list(self._scope_processes.values()), {}
        failure: TerminalError | None = None
        for each in left:
            try:
                each.end()
            except TerminalError as error:
                failure = error
        if failure:
            raise failure

    def active(self) -> AbstractContextManager[None]:
        """Make this the current thread's scope for the block."""
        return holding(_current, self)

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` once if the scope is cancelled during the block, or was cancelled before."""
        entry = partial(callback)  # distinct for each block, also for the same callback in nested blocks
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
    """Return the scope of the current thread, if any."""
    return _current.get()


def check_scope() -> None:
    """Raise CallCancelledError if the current thread's scope was cancelled."""
    scope = _current.get()
    if scope and scope.cancelled:
        raise CallCancelledError("the scope was cancelled before the call began")


def in_no_scope() -> AbstractContextManager[None]:
    """Leave the scope for the block, such as to clean up after a cancelled call."""
    return holding(_current, None)


def on_scope_cancel(callback: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `callback` if the current thread's scope, if any, is cancelled during the block."""
    scope = _current.get()
    return scope.calling(callback) if scope else contextlib.nullcontext()


def cancellable(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that raises CallCancelledError in a cancelled scope, also in place of a resulting error."""

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
    """A time limit for the starts of targets in a block, see `start_limit`.

    Args:
        seconds: The limit. The clock starts with the first wait for a start.
        interrupted: Polled during the wait; True ends the wait at once.
        outer: Enclosing limit, which stays in force.
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
        """True if a function decides about an interrupt."""
        return bool(self._asked) or bool(self._outer and self._outer.can_be_interrupted)

    @property
    def interrupted(self) -> bool:
        """True to end the wait at once."""
        return any(ask() for ask in self._asked) or bool(self._outer and self._outer.interrupted)

    @property
    def left(self) -> float:
        """Seconds left; not below 0."""
        if self._ends == math.inf:
            self._ends = time.monotonic() + self.seconds
        left = max(0.0, self._ends - time.monotonic())
        return min(left, self._outer.left) if self._outer else left


@contextlib.contextmanager
def start_limit(seconds: float, *, interrupted: Callable[[], bool] | None = None) -> Iterator[StartLimit]:
    """Limit the time that the current thread waits for a target's start in the block.

    When the time is up, `StartStoppedError` is raised. The time-out of a command does not limit its target's start. An
    enclosing limit stays in force.

    Args:
        seconds: Seconds from the first wait for a start in the block. `math.inf` sets no limit.
        interrupted: Polled some times a second during the wait; True stops the start.
    """
    limit = StartLimit(seconds, interrupted, _limit.get())
    with holding(_limit, limit):
        yield limit


def current_start_limit() -> StartLimit | None:
    """Return the limit for starts in the current thread, if any."""
    return _limit.get()
