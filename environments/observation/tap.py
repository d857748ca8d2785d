"""A copy of the output of a process in the background, for those who look on."""

from __future__ import annotations

from environments.observation.fitting import MOST_BYTES, Tapped
from environments.output import BoundedCapture, Channel, Sink


class Tap:
    """Keeps the beginning and the end of what a process prints, whoever else takes it."""

    def __init__(self) -> None:
        self._captures: dict[Channel, BoundedCapture] = {}
        self._size: int | None = None

    def into(self, sink: Sink) -> Sink:
        """Return what takes the output for a sink, and for this."""
        self._size = 0
        return _Tapped(sink, self)

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        self._size = (self._size or 0) + len(data)
        self._captures.setdefault(channel, BoundedCapture(MOST_BYTES)).add(data)

    def facts(self) -> dict[str, object]:
        """Return what came of it, by the keys of docs/records.md. Called once.

        A backend that knows nothing of taps leaves it without any, and then nothing is known.
        """
        texts = {channel: Tapped(capture.text()) for channel, capture in self._captures.items()}
        return {
            "output": texts.get(Channel.STDOUT),
            "stderr": texts.get(Channel.STDERR),
            "output_bytes": self._size,
        }


class _Tapped:
    """A sink with a tap."""

    def __init__(self, sink: Sink, tap: Tap) -> None:
        self._sink = sink
        self._tap = tap

    def add(self, channel: Channel, data: bytes) -> None:
        """Take the next bytes."""
        self._tap.add(channel, data)
        self._sink.add(channel, data)
