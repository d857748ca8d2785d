"""The selector (poller) of the loop thread: descriptors, functions submitted by other threads, and timers."""

from __future__ import annotations

import asyncio
import contextlib
from _socket import socketpair  # closed with the last reference, despite exceptions
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector, SelectorKey
from typing import Any

from environments.log import logger

Action = Callable[[], object]

log = logger(__name__)
_NO_CONTEXT = Context()


class Poller(DefaultSelector):
    """The loop's selector, called by asyncio once in each turn, before the ready tasks run.

    Watchers of descriptors are called inside `select`, so that a task they wake runs in the same turn; asyncio's own
    watchers take one turn more. Other threads are woken here, after the tasks: earlier they would only wait for the
    interpreter lock. All methods except `submit` run on the loop thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wakes: list[Action] = []
        """Functions that wake other threads, called after the ready tasks."""
        self._submitted: deque[Action] = deque()
        self._watchers: dict[int, dict[int, Action]] = {}
        self._is_polling = False
        self._wake_reader, self._wake_writer = socketpair()
        self._wake_writer.setblocking(False)
        self.watch_readable(self._wake_reader.fileno(), partial(self._wake_reader.recv, 4096))

    def submit(self, function: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon. Callable from any thread, and safe against interruption at any point."""
        self._submitted.append(partial(function, *args))
        if self._is_polling:  # set by the loop only, which checks the queue after setting it
            with contextlib.suppress(OSError):  # full: the loop wakes anyway; or closed
                self._wake_writer.send(b".")

    def watch_readable(self, descriptor: int, on_readable: Action | None) -> None:
        """Call a function whenever the descriptor is readable, until the next call; None stops watching."""
        self._watch(descriptor, EVENT_READ, on_readable)

    def watch_writable(self, descriptor: int, on_writable: Action | None) -> None:
        """Call a function whenever the descriptor is writable, until the next call; None stops watching."""
        self._watch(descriptor, EVENT_WRITE, on_writable)

    def _watch(self, descriptor: int, event: int, watcher: Action | None) -> None:
        watchers = self._watchers.setdefault(descriptor, {})
        before = sum(watchers)
        if watcher:
            watchers[event] = watcher
        else:
            watchers.pop(event, None)
        events = sum(watchers)
        if not events:
            del self._watchers[descriptor]
        if events and not before:
            self.register(descriptor, events, watchers)
        elif before and not events:
            self.unregister(descriptor)
        elif events != before:
            self.modify(descriptor, events, watchers)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        # Wakes other threads, waits, and calls submitted functions and watchers. Returns asyncio's own events.
        self.wake_others()
        self._is_polling = True
        if self._run_submitted() or self._submitted:
            timeout = 0
        ready = super().select(timeout)
        self._is_polling = False
        others = []
        for key, events in ready:
            if isinstance(key.data, dict):
                for event, watcher in list(key.data.items()):
                    if events & event:
                        _call(watcher)
            else:
                others.append((key, events))
        self._run_submitted()
        return others

    def wake_others(self) -> None:
        """Call the functions that wake other threads."""
        wakes, self.wakes = self.wakes, []
        for wake in wakes:
            _call(wake)

    def _run_submitted(self) -> bool:
        """Call the submitted functions. Returns True if there were any."""
        count = len(self._submitted)  # functions submitted meanwhile run in the next turn
        for _ in range(count):
            _call(self._submitted.popleft())
        return count > 0

    def close(self) -> None:
        super().close()
        self._wake_reader.close()
        self._wake_writer.close()


def _call(function: Action) -> None:
    try:
        function()
    except BaseException:
        log.exception("the loop thread met a fault")


class Timer:
    """A timer of one fixed delay for many functions. Nearly all are cancelled early, at almost no cost.

    Args:
        loop: The loop.
        seconds: The delay.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop, self._seconds = loop, seconds
        self._due: dict[Any, tuple[float, Action]] = {}
        """Deadlines and functions by key, the earliest first."""
        self._is_set = False

    def schedule(self, key: object, function: Action) -> None:
        """Schedule a function, replacing that of the same key."""
        self._due.pop(key, None)
        self._due[key] = (self._loop.time() + self._seconds, function)
        if not self._is_set:
            self._set(self._seconds)

    def is_scheduled(self, key: object) -> bool:
        """Return True if a function is scheduled."""
        return key in self._due

    def cancel(self, key: object) -> None:
        """Cancel a function, if scheduled."""
        self._due.pop(key, None)

    def _set(self, seconds: float) -> None:
        self._is_set = True
        self._loop.call_later(seconds, self._call_due, context=_NO_CONTEXT)  # a call's context would stay alive

    def _call_due(self) -> None:
        self._is_set = False
        now = self._loop.time()
        due = []
        for key, (when, function) in self._due.items():
            if when > now:
                self._set(when - now)
                break
            due.append((key, function))
        for key, function in due:
            if self._due.pop(key, None):
                _call(function)
