"""The log of a script's tool calls: name, time and error of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from environments.log import logger

MAX_ERROR_CHARACTERS = 1000
"""Limit for the error text of one call."""
NOT_ENDED = "it had not ended when the script's run was over"

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """An accepted call of a tool."""

    name: str
    """Name of the tool."""
    start: float
    """Start time, in seconds since the script's start."""
    seconds: float
    """Duration, including the wait for an approval."""
    error: str | None = None
    """Reason of the failure or denial, or the `error` of the returned mapping; None for success. Values of known
    secrets are removed; at most 1,000 characters."""


ToolCallCallback = Callable[[ToolCall], object]


class ToolCallLog:
    """Records the accepted calls of a script, in the order of their start.

    Args:
        on_call: Called after each call, in the call's thread. An exception is logged and ignored.
        shown: Returns an error's text for readers of the log.
    """

    def __init__(self, on_call: ToolCallCallback | None = None, shown: Callable[[str], str] = str) -> None:
        self._on_call = on_call
        self._shown = shown
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._calls: list[ToolCall | None] = []
        """None for a running call."""
        self._running: dict[int, tuple[str, float]] = {}
        self._closed = False

    def begin(self) -> None:
        """Set the start time to now."""
        self._began = time.monotonic()

    def started(self, name: str) -> int:
        """Record the start of a call, and return the call's number."""
        now = time.monotonic()
        with self._lock:
            number = len(self._calls)
            self._calls.append(None)
            self._running[number] = (name, now)
            return number

    def ended(self, number: int, error: str | None) -> None:
        """Record the end of a call and run the callback, unless the log is closed."""
        shown = self._shown(error)[:MAX_ERROR_CHARACTERS] if error else None
        with self._lock:
            if self._closed:
                return
            call = self._finish(number, shown)
        if self._on_call is None:
            return
        try:
            self._on_call(call)
        except BaseException as failure:
            _log.warning("on_tool_call raised %s, and was ignored", type(failure).__name__)

    def close(self) -> tuple[ToolCall, ...]:
        """Close the log and return the calls. A running call is marked as not ended, and later ends are ignored."""
        with self._lock:
            self._closed = True
            for number in list(self._running):
                self._finish(number, NOT_ENDED)
            return tuple(call for call in self._calls if call)

    def _finish(self, number: int, error: str | None) -> ToolCall:
        name, began = self._running.pop(number)
        call = self._calls[number] = ToolCall(name, began - self._began, time.monotonic() - began, error)
        return call
