"""Sinks for command output: a captured result, a callback, a caller's sink, or none. Used on the loop thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from environments.loop import OutputQueue, in_worker, shielded, spawn
from environments.output import AttachedProcess, BoundedCapture, Channel, LoopSink, OutputSink
from environments.result import CommandResult
from environments.shell.stream import Stream

_NOTICE = re.compile(rb"(?:^|(?<=\n))(?:Terminated|Killed)\n")
"""A shell's notice of a child ended by a signal."""


class Discarded:
    """Drops all output."""

    def add(self, channel: Channel, data: bytes) -> None:
        """Drop the bytes."""


class Output:
    """The output of one command: bounded captures, and pieces for a callback.

    Args:
        limit: Bytes to keep of each channel.
        separate: True to keep stderr apart.
        pieces: Delivers pieces to a callback; None without a callback.
    """

    def __init__(self, limit: int, separate: bool = False, pieces: OutputQueue | None = None) -> None:
        self.stdout = BoundedCapture(limit)
        self.stderr = BoundedCapture(limit) if separate else None
        self.stream: Stream | None = None
        """The output's stream, paused while the callback is slow (back-pressure)."""
        self.is_ending = False
        """True once the command is being ended: the shell's notice of the signal is then left out."""
        self._pieces = pieces

    def add(self, channel: Channel, data: bytes) -> None:
        """Add the next bytes of a channel, see `Sink`."""
        if self.is_ending:
            data = _NOTICE.sub(b"", data, count=1)
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is None:
            return
        capture.add(data)
        if self._pieces is not None and self.stream:
            self._pieces.offer(channel, data, self.stream)

    @property
    def has_callback(self) -> bool:
        """True if a callback receives the output."""
        return self._pieces is not None

    def skip(self, channel: Channel, size: int) -> None:
        """Count bytes left out of the middle of a channel, see `BoundedCapture.skip`."""
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is not None:
            capture.skip(size)


class Delivery:
    """Delivers output to a caller's sink on a worker thread, in order. A slow sink pauses the stream (back-pressure).

    Args:
        sink: The sink. Its first error is stored, and ends the delivery.
        on_error: Called on the loop thread with the first error.
    """

    def __init__(self, sink: OutputSink, on_error: Callable[[], object]) -> None:
        self.stream: Stream | None = None
        """The output's stream."""
        self.error: Exception | None = None
        self._sink, self._on_error = sink, on_error
        self._pieces = OutputQueue(self._wake)
        self._delivering: asyncio.Task[None] | None = None

    def add(self, channel: Channel, data: bytes) -> None:
        """Add the next bytes of a channel, see `Sink`."""
        if self.stream:
            self._pieces.offer(channel, data, self.stream)

    def _wake(self) -> None:
        if self._delivering is None or self._delivering.done():
            self._delivering = spawn(self._deliver())

    async def _deliver(self) -> None:
        while self._pieces:
            try:
                self._pieces.acknowledge(await in_worker(self._hand_over))
            except Exception as error:  # raised by the sink: later output has no receiver
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
        """Drop waiting and later output, and stop waiting for the sink."""
        self._pieces.drop()
        self._delivering = None

    async def flush(self) -> None:
        """Wait until all output has been delivered."""
        if self._delivering:
            await shielded(self._delivering)


class Direct:
    """Delivers output to a sink that runs on the loop thread, see `Delivery`."""

    def __init__(self, sink: LoopSink, process: AttachedProcess, on_error: Callable[[], object]) -> None:
        self.stream: Stream | None = None
        """The output's stream."""
        self.error: Exception | None = None
        self._sink, self._on_error = sink, on_error
        self._is_dropped = False
        sink.attach(process)

    def add(self, channel: Channel, data: bytes) -> None:
        """Add the next bytes of a channel, see `Sink`."""
        try:
            if self.error is None and not self._is_dropped:
                self._sink.add(channel, data)
        except Exception as error:
            self.error = error
            self._on_error()

    def drop(self) -> None:
        """Drop later output."""
        self._is_dropped = True

    async def flush(self) -> None:
        """Do nothing: delivery is immediate."""


class Outcome:
    """The end of a command. The caller's thread builds the text of the output, which may be large.

    Args:
        output: The output.
        exit_code: The exit code.
        reason: `timeout` or `interrupt` if the command was ended; None if it ended by itself.
        survivors: The ids of processes that could not be ended.
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
        """Return the result for the caller."""
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
