"""Records the notifications of an MCP client during a tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.types import LoggingMessageNotificationParams

UNTIL_NOTIFIED = "rm -f told; echo early; while [ ! -e told ]; do sleep 0.1; done; echo late"
"""A command that runs until its first output was seen."""


class Notifications:
    """The log messages and progress of a client."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str | None, Any]] = []
        self.progress: list[tuple[float, str | None]] = []

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        self.messages.append((message.level, message.logger, message.data))

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

    def shown(self, who: str) -> str:
        return "".join(str(data) for _, logger, data in self.messages if logger == who)
