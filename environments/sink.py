"""What takes the output of a command as it arrives."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Channel(Enum):
    """Which of the two output channels of a process bytes came from."""

    STDOUT = 1
    STDERR = 2


class OutputSink(Protocol):
    """Takes the output of one command."""

    @property
    def separate(self) -> bool:
        """Whether stderr is wanted apart."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel; without `separate` all come from STDOUT."""

    def freeze(self) -> None:
        """Ignore the rest: what a command prints while it is being ended is not its output."""
