"""A stream as far as it is paused and resumed."""

from __future__ import annotations


class PauseLog:
    """Notes in `turns` how a stream is paused and resumed."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def pause(self) -> None:
        self.turns.append("pause")

    def resume(self) -> None:
        self.turns.append("resume")
