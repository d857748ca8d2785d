"""Sinks for the output of a command: into its result, to a callback, or nowhere. All are used on the loop thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from environments.loop import Pieces, in_worker, shielded, spawn
from environments.output import AttachedProcess, BoundedCapture, Channel, LoopSink, OutputSink
from environments.result import CommandResult
from environments.shell.stream import Stream

_NOTICE = re.compile(rb"(?:^|(?<=\n))(?:Terminated|Killed)\n")
"""The line by which a shell tells that a signal has ended its child."""


class Discarded:
    """Drops the output."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Drop it."""


class Output:
    """The output of one command: bounded captures, and the pieces for its callback.

    Args:
        limit: Bytes to keep of each channel.
        separate: Whether stderr is kept apart.
        pieces: Takes the pieces on to a callback; None where there is none.
    """

    def __init__(self, limit: int, separate: bool = False, pieces: Pieces | None = None) -> None:
        self.stdout = BoundedCapture(limit)
        self.stderr = BoundedCapture(limit) if separate else None
        self.stream: Stream | None = None
        """The stream that the output comes on, which is paused while the callback is slow."""
        self.is_ending = False
        """True once the command is being ended: then the shell's own notice of that is left out."""
        self._pieces = pieces

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of a channel, see `Sink`."""
        if self.is_ending:
            data = _NOTICE.sub(b"", data, count=1)
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is None:
            return
        capture.add(data)
        if self._pieces is not None and self.stream:
            self._pieces.offer(channel, data, self.stream)

    @property
    def calls_back(self) -> bool:
        """True if a callback receives the output."""
        return self._pieces is not None

    def skip(self, channel: Channel, size: int) -> None:
        """Count bytes of the middle that a channel does not bring, see `BoundedCapture.skip`."""
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is not None:
            capture.skip(size)


class Delivery:
    """Hands output to a sink of the caller's on a worker thread, in order. The stream is paused while it is slow.

    Args:
        sink: The sink. Its errors are kept, and end the delivery.
        on_error: Called on the loop thread with the first error.
    """

    def __init__(self, sink: OutputSink, on_error: Callable[[], object]) -> None:
        self.stream: Stream | None = None
        """The stream that the output comes on."""
        self.error: Exception | None = None
        self._sink, self._on_error = sink, on_error
        self._pieces = Pieces(self._wake)
        self._delivering: asyncio.Task[None] | None = None

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of a channel, see `Sink`."""
        if self.stream:
            self._pieces.offer(channel, data, self.stream)

    def _wake(self) -> None:
        if self._delivering is None or self._delivering.done():
            self._delivering = spawn(self._deliver())

    async def _deliver(self) -> None:
        while self._pieces:
            try:
                self._pieces.acknowledge(await in_worker(self._hand_over))
            except Exception as error:  # of the sink: the output has no taker any more
                self.error = error
                self._pieces.drop()
                self._on_error()

    def _hand_over(self) -> int:
        size = 0
        for channel, data in self._pieces.pop_all():
            size += len(data)
            self._sink.add(channel, data)
        return size

    def drop(self) -> None:
        """Drop what waits and what follows, and wait no more for the sink."""
        self._pieces.drop()
        self._delivering = None

    async def flush(self) -> None:
        """Wait until all has been handed over."""
        if self._delivering:
            await shielded(self._delivering)


class Direct:
    """Hands output to a sink that takes it on the loop thread, see `Delivery`."""

    def __init__(self, sink: LoopSink, process: AttachedProcess, on_error: Callable[[], object]) -> None:
        self.stream: Stream | None = None
        """The stream that the output comes on."""
        self.error: Exception | None = None
        self._sink, self._on_error = sink, on_error
        self._is_dropped = False
        sink.attach(process)

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of a channel, see `Sink`."""
        try:
            if self.error is None and not self._is_dropped:
                self._sink.add(channel, data)
        except Exception as error:
            self.error = error
            self._on_error()

    def drop(self) -> None:
        """Drop what follows."""
        self._is_dropped = True

    async def flush(self) -> None:
        """Do nothing: all has been handed over."""


class Outcome:
    """The end of a command. The text of its output is made in the caller's thread, as it may be large.

    Args:
        output: The output.
        exit_code: The exit code.
        reason: `timeout` or `interrupt`, if the command was ended by us.
        survivors: The process ids of what could not be ended.
    """

    def __init__(
        self, output: Output, exit_code: int, reason: str | None = None, survivors: tuple[int, ...] = ()
    ) -> None:
        self.output, self.exit_code, self.reason, self.survivors = output, exit_code, reason, survivors
        self.cwd = ""
        self.seconds = 0.0
        self.notes: list[str] = []
        """Sentences for `CommandResult.note`."""

    def result(self, binary: bool = False) -> CommandResult:
        """Return the result that a caller gets."""
        out = self.output.stdout.text(binary)
        err = self.output.stderr.text(binary) if self.output.stderr else None
        return CommandResult(
            out.text,
            self.exit_code,
            stderr=err.text if err else None,
            output_bytes=out.data,
            stderr_bytes=err.data if err else None,
            timed_out=self.reason == "timeout",
            interrupted=self.reason == "interrupt",
            cwd=self.cwd,
            duration_seconds=self.seconds,
            omitted_bytes=out.omitted_bytes + (err.omitted_bytes if err else 0),
            omitted_at=out.omitted_at,
            survivors=self.survivors,
            note="; ".join(self.notes) or None,
        )
