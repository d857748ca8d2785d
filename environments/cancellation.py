"""Ending what runs on behalf of someone who no longer waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_current: ContextVar[CancelScope | None] = ContextVar("hermes_cancel_scope", default=None)


class CancelScope:
    """Commands run inside `with scope.active():` end when `scope.cancel()` is called, from any thread.

    A script's tool calls run in the script's scope, so that nothing they started outlives the script.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: set[Callable[[], None]] = set()
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

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Make this the scope of everything the current thread does in the block."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

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
