"""Records how a stream is paused and resumed."""

from __future__ import annotations

import asyncio


class PauseLog:
    """Records the calls of `pause` and `resume`, in place of a stream.

    Args:
        resumed: Is set by `resume`.
    """

    def __init__(self, resumed: asyncio.Event | None = None) -> None:
        self.calls: list[str] = []
        self._resumed = resumed

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")
        if self._resumed:
            self._resumed.set()
