"""Notifications during a call: progress, log messages, and a heartbeat against the client's time-out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, get_args

import anyio
from mcp.server.context import ServerRequestContext
from mcp.types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams

from environments.progress import Progress
from hermes_env.progress import described

INTERVAL = 0.25
"""Seconds between two notifications. The last notification precedes the result."""
HEARTBEAT = 5.0
"""Seconds without other progress until a heartbeat: many clients restart their time-out with each notification."""
MOST_CHARACTERS = 4000
"""Characters of output per message: the tail."""
LEVEL: LoggingLevel = "info"
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)
_MOST_STEPS, _LONGEST_MESSAGE = 20, 200


class Notifications:
    """Collects output and progress of a call, from any thread, and notifies the client at intervals.

    Args:
        context: The request.
        tool: The tool's name, used as the logger of the output.
        lowest_level: Returns the lowest level of log messages for the client.
    """

    def __init__(
        self, context: ServerRequestContext[Any, Any], tool: str, lowest_level: Callable[[], LoggingLevel]
    ) -> None:
        self._context, self._tool, self._lowest_level = context, tool, lowest_level
        self._lock = threading.Lock()
        self._began = self._sent = time.monotonic()
        self._steps: list[str] = []
        self._last_step = self._message = self._output = ""
        self._left_out = 0

    def step(self, progress: Progress) -> None:
        """Add a step of a start or of a transfer."""
        with self._lock:
            # A path may have bytes that are not text and cannot be sent.
            self._message = described(progress).encode("utf-8", "replace").decode()
            if progress.what != self._last_step:
                self._last_step = progress.what
                self._steps = [*self._steps, self._message][-_MOST_STEPS:]

    def output(self, text: str) -> None:
        """Add a piece of the output of a command or a script."""
        with self._lock:
            kept = (self._output + text[-MOST_CHARACTERS:])[-MOST_CHARACTERS:]
            self._left_out += len(self._output) + len(text) - len(kept)
            self._output = kept

    async def send_at_intervals(self) -> None:
        """Send notifications at intervals until cancelled."""
        while True:
            await anyio.sleep(INTERVAL)
            await self.send()

    async def send(self) -> None:
        """Send all output and progress since the last notification."""
        with self._lock:
            steps, output, left_out, message = self._steps, self._output, self._left_out, self._message
            self._steps, self._output, self._left_out, self._message = [], "", 0, ""
        if left_out:
            output = f"[... {left_out:,} characters left out ...]\n{output}"
        for step in steps:
            await self._log("environment", step)
        if output:
            await self._log(self._tool, output)
        message = message or output.rstrip().rpartition("\n")[2][:_LONGEST_MESSAGE]
        now = time.monotonic()
        if message or now - self._sent >= HEARTBEAT:
            self._sent = now
            seconds = now - self._began  # progress has to grow
            await self._context.session.report_progress(seconds, message=message or f"running for {seconds:.0f} s")

    async def _log(self, logger: str, text: str) -> None:
        if _LEVELS.index(LEVEL) >= _LEVELS.index(self._lowest_level()):
            message = LoggingMessageNotificationParams(level=LEVEL, logger=logger, data=text)
            await self._context.session.send_notification(
                LoggingMessageNotification(params=message), related_request_id=self._context.request_id
            )
