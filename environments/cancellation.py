"""Ending what runs on behalf of someone who no longer waits for it."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from environments.contexts import holding
from environments.errors import TerminalError

_current: ContextVar[CancelScope | None] = ContextVar("hermes_cancel_scope", default=None)
_limit: ContextVar[StartLimit | None] = ContextVar("hermes_start_limit", default=None)


class Remains(Protocol):
    """What may be left of what was done in a scope."""

    def end(self) -> None:
        """End it. It raises TerminalError if it can't."""


_Remains = TypeVar("_Remains", bound=Remains)


class CancelScope:
    """Commands run inside `with scope.active():` end when `scope.cancel()` is called, from any thread.

    A script's tool calls run in the script's scope, so that nothing they started outlives the script.

    Args:
        is_trusted: Whether the session's owner asked for what is done in the scope, and not a script that nobody read.
    """

    def __init__(self, *, is_trusted: bool = True) -> None:
        self.is_trusted = is_trusted
        self._lock = threading.Lock()
        self._callbacks: set[Callable[[], None]] = set()
        self._remains: dict[object, Remains] = {}
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

    def remains(self, key: object, make: Callable[[], _Remains]) -> _Remains:
        """Return what notes, for one environment, what may be left of this scope; made when it is first asked for."""
        with self._lock:
            found = self._remains.get(key)
            if found is None:
                found = self._remains[key] = make()
            return found  # type: ignore[return-value]  # one key has remains of one kind

    def end_remains(self) -> None:
        """End what the scope, once it is cancelled, has left behind, such as processes in the background.

        Raises:
            TerminalError: Something could not be ended. All the rest was.
        """
        with self._lock:
            remains, self._remains = list(self._remains.values()), {}
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
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Have `callback` called once if the scope is cancelled while the block runs, or was before it."""
        with self._lock:
            self._callbacks.add(callback)
            already = self._cancelled
        try:
            if already:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.discard(callback)


def current_scope() -> CancelScope | None:
    """Return the scope the current thread works in, if any."""
    return _current.get()


class StartLimit:
    """How long targets may take to start for what is done in a block, see `start_limit`.

    Args:
        seconds: The limit. Its clock begins with the first start that is waited for.
        interrupted: Asked now and then whether to stop waiting for a start at once.
    """

    def __init__(self, seconds: float, interrupted: Callable[[], bool] | None = None) -> None:
        self.seconds = seconds
        self.interrupted = interrupted
        self._ends = math.inf

    @property
    def left(self) -> float:
        """Seconds that are left; not below 0."""
        if self._ends == math.inf:
            self._ends = time.monotonic() + self.seconds
        return max(0.0, self._ends - time.monotonic())


@contextlib.contextmanager
def start_limit(seconds: float, *, interrupted: Callable[[], bool] | None = None) -> Iterator[StartLimit]:
    """Stop a target's start that the current thread waits for in the block, if it takes longer than this.

    `StartStoppedError` is then raised. The time limit of a command does not bound its target's start.

    Args:
        seconds: Seconds from when a start is first waited for in the block. `math.inf` sets no limit.
        interrupted: Asked some times a second while a start is waited for; true stops it.
    """
    limit = StartLimit(seconds, interrupted)
    with holding(_limit, limit):
        yield limit


def current_start_limit() -> StartLimit | None:
    """Return the limit that holds for the current thread's starts, if any."""
    return _limit.get()
