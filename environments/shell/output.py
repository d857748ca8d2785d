"""Where the output of a command goes: nowhere, to whoever reads it later, or into its result."""

from __future__ import annotations

import contextlib

from environments.capture import BoundedCapture, LiveText
from environments.listener import LiveOutput, channel_name
from environments.shell.watch import Watch
from environments.sink import Channel


class Nowhere:
    """Drops what it is given."""

    separate = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Drop it."""

    def freeze(self) -> None:
        """Go on dropping it."""


class CommandOutput:
    """Where the output of one command goes: into bounded captures, and live to a callback.

    Args:
        limit: Bytes to keep of each channel.
        separate: Whether stderr is kept apart.
        on_output: Told of it as it comes.
        binary: Whether that is told bytes, and not text.
    """

    def __init__(
        self, limit: int, separate: bool, on_output: LiveOutput | None = None, *, binary: bool = False
    ) -> None:
        self.separate = separate
        self.stdout = BoundedCapture(limit)
        self.stderr = BoundedCapture(limit) if separate else None
        self._on_output = on_output
        self._live = {channel: LiveText() for channel in Channel} if on_output and not binary else {}
        self._frozen = False
        self._watch: Watch | None = None

    @property
    def calls_back(self) -> bool:
        """Whether there is a callback, which may take its time."""
        return self._on_output is not None

    def watched_by(self, watch: Watch) -> None:
        """Have the command looked after while the callback has the reader's thread."""
        self._watch = watch

    def add(self, channel: Channel, data: bytes) -> None:
        """Take output of one channel. The callback's own errors are raised."""
        if self._frozen:
            return
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is None:
            return
        capture.add(data)
        if self._on_output and (piece := self._live[channel].feed(data) if self._live else data):
            with self._watch or contextlib.nullcontext():
                self._on_output(piece, channel_name(channel))

    def skip(self, channel: Channel, size: int) -> None:
        """Count bytes of the middle that a channel does not bring, see `BoundedCapture.skip`."""
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is not None and not self._frozen:
            capture.skip(size)

    def freeze(self) -> None:
        """Keep what there is and ignore the rest, see `OutputSink`."""
        self._frozen = True

    def finish(self) -> None:
        """Pass on what the callback is still owed."""
        if not self._on_output:
            return
        for channel, live in self._live.items():
            if text := live.feed(b"", final=True):
                self._on_output(text, channel_name(channel))
