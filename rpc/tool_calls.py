"""What a script's tool calls were: the name, the time and the error of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from environments.log import logger

MAX_ERROR_CHARACTERS = 1000
"""How much is kept of the error of one call."""
NOT_ENDED = "it had not ended when the script's run was over"

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One accepted call of a tool."""

    name: str
    """The tool's."""
    start: float
    """When it came, in seconds since the script's start."""
    seconds: float
    """How long it took here, the wait for an approval included."""
    error: str | None = None
    """Why it failed or was denied, or the `error` of the mapping it returned; None if there was none. It holds no
    values of secrets that are known, and 1,000 characters at most."""


ToolCallCallback = Callable[[ToolCall], object]


class ToolCallLog:
    """Notes the calls of one script, in the order in which they came. Of those that are refused it is told nothing.

    Args:
        on_call: Called after each, in its thread. What it raises is logged, and nothing else comes of it.
        shown: Makes the text of an error fit for whoever reads the log.
    """

    def __init__(self, on_call: ToolCallCallback | None = None, shown: Callable[[str], str] = str) -> None:
        self._on_call = on_call
        self._shown = shown
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._calls: list[ToolCall | None] = []
        """None for those that still run."""
        self._running: dict[int, tuple[str, float]] = {}
        self._closed = False

    def begin(self) -> None:
        """Note that the script starts now."""
        self._began = time.monotonic()

    def started(self, name: str) -> int:
        """Note a call, and return its number."""
        now = time.monotonic()
        with self._lock:
            number = len(self._calls)
            self._calls.append(None)
            self._running[number] = (name, now)
            return number

    def ended(self, number: int, error: str | None) -> None:
        """Note a call's end, and tell the callback, unless the log is closed."""
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
            _log.warning("on_tool_call raised %s, and was passed over", type(failure).__name__)

    def close(self) -> tuple[ToolCall, ...]:
        """Return the calls. Those that still run are noted as such, and their ends are not waited for any more."""
        with self._lock:
            self._closed = True
            for number in list(self._running):
                self._finish(number, NOT_ENDED)
            return tuple(call for call in self._calls if call)

    def _finish(self, number: int, error: str | None) -> ToolCall:
        name, began = self._running.pop(number)
        call = self._calls[number] = ToolCall(name, began - self._began, time.monotonic() - began, error)
        return call
