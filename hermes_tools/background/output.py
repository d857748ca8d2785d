"""The output of a background process: a bounded buffer of its end, shared by readers at different positions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from environments.model_view import ModelView
from environments.output import Channel, LiveText

KEPT_BYTES = 200_000
"""Bytes kept of the end of an output."""


class Kept(NamedTuple):
    """The kept end of an output."""

    text: str
    dropped_bytes: int
    """Bytes in front of the text."""
    dropped_lines: int
    """Lines that end in front of the text."""


class ProcessOutput:
    """A sink for the last bytes of an output. `add` never blocks, so there is no back-pressure. See `OutputSink`.

    Args:
        also: Called with each piece, in the thread of `add`.
        limit: Bytes to keep.
    """

    separate = False

    def __init__(self, also: Callable[[bytes], object] | None = None, limit: int = KEPT_BYTES) -> None:
        self._also = also
        self._limit = limit
        self._lock = threading.Lock()
        self._data = bytearray()
        self._dropped_bytes = 0
        self._dropped_lines = 0
        self._of_handle = OutputReader(self)

    def add(self, channel: Channel, data: bytes) -> None:
        """Add bytes."""
        with self._lock:
            self._data += data
            if (excess := len(self._data) - self._limit) > 0:
                self._dropped_bytes += excess
                self._dropped_lines += self._data.count(b"\n", 0, excess)
                del self._data[:excess]
        if self._also:
            self._also(data)

    def read_new(self, final: bool) -> str:
        """Return the output since the last call, for the handle's `read`. See `ReadableSink`."""
        return self._of_handle.next(final)[0]

    def kept(self) -> Kept:
        """Return the kept end, without a split character at the beginning."""
        with self._lock:
            data, dropped, lines = bytes(self._data), self._dropped_bytes, self._dropped_lines
        cut = continuation_bytes(data) if dropped else 0
        return Kept(data[cut:].decode("utf-8", "replace"), dropped + cut, lines)

    def since(self, place: int) -> tuple[int, bytes]:
        """Return the kept output after a place, and the place of its first byte.

        Args:
            place: Bytes from the beginning of the output.
        """
        with self._lock:
            begin = max(place, self._dropped_bytes)
            return begin, bytes(self._data[begin - self._dropped_bytes :])


class OutputReader:
    """A reader of an output. Each piece is read once, from any thread."""

    def __init__(self, output: ProcessOutput) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._place = 0
        self._text = LiveText()

    def next(self, final: bool) -> tuple[str, int]:
        """Return the output since the last call, and the number of lost bytes in front.

        Args:
            final: True if the output is complete; else an incomplete character stays unread.
        """
        with self._lock:
            begin, data = self._output.since(self._place)
            missed = begin - self._place
            self._place = begin + len(data)
            if missed:
                cut = continuation_bytes(data)
                missed, data = missed + cut, data[cut:]
                self._text = LiveText()
            return self._text.feed(data, final), missed


class ModelReader:
    """A reader for a model, with redaction. A possible beginning of a secret is held back until more output comes.

    Args:
        output: The output to read.
        view: Removes secrets and terminal controls.
    """

    def __init__(self, output: ProcessOutput, view: ModelView) -> None:
        self._reading = OutputReader(output)
        self._view = view
        self._lock = threading.Lock()
        self._pieces = view.pieces()

    def next(self, final: bool) -> str:
        """Return the output since the last call, behind a line with the number of missing bytes. See `OutputReader`."""
        with self._lock:
            text, missed = self._reading.next(final)
            if not missed:
                return self._pieces.feed(text, final)
            self._pieces = self._view.pieces()
            shown = self._pieces.feed(self._view.redactor.text(text, cut_before=True), final)
            return f"[{missed} bytes of output came before this and are no longer kept]\n{shown}"


def continuation_bytes(data: bytes) -> int:
    """Return the number of leading bytes that continue a UTF-8 character."""
    return next((at for at in range(min(3, len(data))) if data[at] & 0xC0 != 0x80), min(3, len(data)))
