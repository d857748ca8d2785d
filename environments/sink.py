"""What takes the output of a command as it arrives."""

from __future__ import annotations

from enum import Enum
from typing import Protocol, runtime_checkable


class Channel(Enum):
    """Which of the two output channels of a process bytes came from."""

    __hash__ = object.__hash__  # see `Kind` of the messages

    STDOUT = 1
    STDERR = 2


class Sink(Protocol):
    """Takes output."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of a channel."""


class OutputSink(Protocol):
    """Takes the output of one command."""

    @property
    def separate(self) -> bool:
        """Whether stderr is wanted apart."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of one channel; without `separate` all come from STDOUT."""

    def freeze(self) -> None:
        """Ignore the rest: what a command prints while it is being ended is not its output."""


@runtime_checkable
class ReadableSink(OutputSink, Protocol):
    """One that the handle of a background process reads from, see `Process.read`."""

    def take(self, final: bool) -> str:
        """Return what has come since the last call.

        Args:
            final: Whether nothing more will come; else a character that is not complete yet stays.
        """
