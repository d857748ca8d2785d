"""What an MCP client is told while a call of a tool runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.types import LoggingMessageNotificationParams

UNTIL_NOTIFIED = "rm -f told; echo early; while [ ! -e told ]; do sleep 0.1; done; echo late"
"""A command that ends once it was seen that it runs."""


class Notifications:
    """What a client was told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str | None, Any]] = []
        self.progress: list[tuple[float, str | None]] = []

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        self.messages.append((message.level, message.logger, message.data))

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

    def shown(self, who: str) -> str:
        return "".join(str(data) for _, logger, data in self.messages if logger == who)
