"""The one thing a backend must offer: a duplex byte stream to a process in the target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from environments.sink import Channel
from environments.terminal import Terminal

__all__ = [
    "Channel",
    "Chunk",
    "CountingStream",
    "PollingStream",
    "SkippingStream",
    "Stream",
    "StreamOpener",
    "Terminal",
]


class Chunk(NamedTuple):
    """Bytes that arrived. No bytes at all means that the process has ended and nothing more will come."""

    channel: Channel
    data: bytes


class Stream(Protocol):
    """A process in the target, as its standard streams. One thread reads; any thread may write or close."""

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Returns:
            What arrived, an empty chunk once the process has ended, or None when the time was up.
        """

    def write(self, data: bytes) -> None:
        """Send all of `data` to the process.

        Raises:
            BrokenPipeError: The process no longer reads, or the link is gone.
        """

    def close_write(self) -> None:
        """Let the process see end of file on its standard input."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the process's terminal, if it has one."""

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended (128 + N for signal N), or None if `timeout` seconds did not bring it."""

    def close(self) -> None:
        """Give up the stream and free what it holds here. A local child is killed and reaped."""


@runtime_checkable
class CountingStream(Stream, Protocol):
    """A stream that knows how much of what was written is not read yet, also when the process has ended."""

    def unread_bytes(self) -> int | None:
        """Return how many bytes the process has left unread; None if that can't be known."""


@runtime_checkable
class PollingStream(Stream, Protocol):
    """A stream that asks the target for what there is, and has it wait until there is something."""

    longest_wait: float
    """Seconds that it waits for one answer. Whoever reads for less has it ask more often."""


@runtime_checkable
class SkippingStream(Stream, Protocol):
    """A stream over which the middle of a large output need not be brought."""

    def keep_ends(self, size: int, on_skip: Callable[[Channel, int], object]) -> None:
        """From here on bring the first and the last `size` bytes of each channel, and not what is between them.

        Args:
            size: Bytes.
            on_skip: Told how many bytes were left out of which channel.
        """

    def keep_all(self) -> None:
        """Bring everything again."""


class StreamOpener(Protocol):
    """Starts a process in the target."""

    def __call__(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Run `argv` in the target and return its streams.

        Args:
            argv: The program and its arguments, which other users of the target may be able to see.
            terminal: The size of a terminal to give it; None is pipes.

        Raises:
            EnvironmentStartError: The process could not be started.
        """
