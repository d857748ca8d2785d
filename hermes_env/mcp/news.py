"""What a client is told of its call while that runs: progress, and log messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from environments.starting import Progress
from hermes_env.progress import described

INTERVAL = 0.25
"""Seconds between two looks at what there is to tell. A last one is when the call is over."""
HEARTBEAT = 5.0
"""Seconds without news after which a client is told that the call still runs: many count their time-out from there."""
MOST_CHARACTERS = 4000
"""Of output in one message: its end."""
_MOST_STEPS = 20
_LONGEST_MESSAGE = 200
_LEVEL: LoggingLevel = "info"


class News:
    """Gathers the news of one call from any thread, and tells the client some times a second.

    Args:
        context: The request.
        tool: The tool's name, under which its output is told.
        wants: Says whether the client wants messages of a level.
    """

    def __init__(
        self, context: ServerRequestContext[Any, Any], tool: str, wants: Callable[[LoggingLevel], bool]
    ) -> None:
        self._context = context
        self._tool = tool
        self._wants = wants
        self._lock = threading.Lock()
        self._began = self._told = time.monotonic()
        self._steps: list[str] = []
        self._last_step = ""
        self._message = ""
        self._output = ""
        self._left_out = 0

    def step(self, progress: Progress) -> None:
        """Take what a start, or a transfer, is doing."""
        with self._lock:
            # A path may hold what is no text, and cannot be sent.
            self._message = described(progress).encode("utf-8", "replace").decode()
            if progress.what != self._last_step:
                self._last_step = progress.what
                self._steps = [*self._steps, self._message][-_MOST_STEPS:]

    def output(self, text: str) -> None:
        """Take the next piece of what a command or a script prints."""
        with self._lock:
            kept = (self._output + text[-MOST_CHARACTERS:])[-MOST_CHARACTERS:]
            self._left_out += len(self._output) + len(text) - len(kept)
            self._output = kept

    async def tell(self) -> None:
        """Tell the client of what has come, again and again."""
        while True:
            await anyio.sleep(INTERVAL)
            await self._tell(*self._taken())

    async def tell_rest(self) -> None:
        """Tell the client of what has come since, when the call is over."""
        await self._tell(*self._taken())

    def _taken(self) -> tuple[list[str], str, str]:
        """Return, and forget, the steps, the output and the line that says how far it is."""
        with self._lock:
            steps, output, left_out, message = self._steps, self._output, self._left_out, self._message
            self._steps, self._output, self._left_out, self._message = [], "", 0, ""
        if left_out:
            output = f"[... {left_out:,} characters left out ...]\n{output}"
        return steps, output, message or _last_line(output)

    async def _tell(self, steps: list[str], output: str, message: str) -> None:
        for step in steps:
            await self._log("environment", step)
        if output:
            await self._log(self._tool, output)
        now = time.monotonic()
        if message or now - self._told >= HEARTBEAT:
            self._told = now
            seconds = now - self._began  # which grows, as progress has to
            await self._context.session.report_progress(seconds, message=message or f"running for {seconds:.0f} s")

    async def _log(self, who: str, text: str) -> None:
        if self._wants(_LEVEL):
            message = LoggingMessageNotificationParams(level=_LEVEL, logger=who, data=text)
            await self._context.session.send_notification(
                LoggingMessageNotification(params=message), related_request_id=self._context.request_id
            )


def _last_line(text: str) -> str:
    stripped = text.rstrip()
    return stripped[stripped.rfind("\n") + 1 :][:_LONGEST_MESSAGE]
