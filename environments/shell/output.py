"""Where the output of a command goes: nowhere, to whoever reads it later, or into its result."""

from __future__ import annotations

import threading
from collections.abc import Callable

from environments.capture import BoundedCapture, LiveText
from environments.sink import Channel


class Nowhere:
    """Drops what it is given."""

    separate = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Drop it."""

    def freeze(self) -> None:
        """Go on dropping it."""


class CommandOutput:
    """Where the output of one command goes: into bounded captures, and live to a callback."""

    def __init__(self, limit: int, separate: bool, on_output: Callable[[str], object] | None = None) -> None:
        self.separate = separate
        self.stdout = BoundedCapture(limit)
        self.stderr = BoundedCapture(limit) if separate else None
        self._on_output = on_output
        self._live = {channel: LiveText() for channel in Channel} if on_output else {}
        self._frozen = False

    def add(self, channel: Channel, data: bytes) -> None:
        """Take output of one channel. The callback's own errors are raised."""
        if self._frozen:
            return
        capture = self.stderr if channel is Channel.STDERR else self.stdout
        if capture is None:
            return
        capture.add(data)
        if self._on_output and (text := self._live[channel].feed(data)):
            self._on_output(text)

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
        for live in self._live.values():
            if text := live.feed(b"", final=True):
                self._on_output(text)


class UnreadOutput:
    """Output that waits to be read. Above its limit the oldest is dropped, so that a command never has to wait."""

    separate = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._data = bytearray()
        self._text = LiveText()

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes of output."""
        with self._lock:
            self._data += data
            if (excess := len(self._data) - self._limit) > 0:
                del self._data[:excess]

    def freeze(self) -> None:
        """What is said at the end is wanted here: it may be read after `kill`."""

    def take(self, final: bool) -> str:
        """Return what has come since the last call. A character that is not complete yet stays, unless `final`."""
        with self._lock:
            data, self._data = bytes(self._data), bytearray()
            return self._text.feed(data, final)
