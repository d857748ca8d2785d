"""Telling a command's output from what the shell around it says to us, on the same stream.

The shell speaks in messages: a record separator (byte 30), a nonce that only we and the shell know, a space, a letter
for the kind, and then fields that each end in NUL. Whatever is not a message is output, byte for byte. The first byte
is one that output hardly ever ends in, because output that may be the beginning of a message has to be held back.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a message says."""

    READY = b"R"
    """The shell runs. Fields: its pid, its name (with a 1 behind it if it could not enter the directory it was to
    start in), then the watched variables."""
    BEGIN = b"B"
    """The shell has read all of its script: what is written to it from now on is the command's. Fields: number."""
    END = b"E"
    """The command ended. Fields: number, exit code, then the watched variables."""
    EXIT = b"X"
    """The command ended the shell with it. Fields as for END."""
    STATE = b"S"
    """Shell text that, read by a new shell, brings back exports, functions, aliases and options. Fields: text."""


WATCHED = ("PWD", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables whose values every END brings along: the first is the working directory, the others name the Python."""

_FULL = 2 + len(WATCHED)
_FIELD_COUNTS = {Kind.READY: _FULL, Kind.END: _FULL, Kind.EXIT: _FULL, Kind.BEGIN: 1, Kind.STATE: 1}
_KINDS = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the shell."""

    kind: Kind
    fields: tuple[bytes, ...]


class FrameScanner:
    """Splits a stream, fed in pieces of any size, into output and messages."""

    def __init__(self, nonce: str) -> None:
        self._marker = b"\x1e" + nonce.encode() + b" "
        self._pending = b""

    def feed(self, data: bytes) -> list[bytes | Message]:
        """Take the next bytes and return what they complete, in order."""
        data = self._pending + data
        parts: list[bytes | Message] = []
        position = 0
        while (found := data.find(self._marker, position)) >= 0:
            if found > position:
                parts.append(data[position:found])
            message, position = self._parse(data, found)
            if message is None:
                self._pending = data[found:]
                return parts
            parts.append(message)
        # Only the end of the piece can hold a marker cut in two: searching all of it again each time is what
        # makes large outputs quadratic.
        keep = self._marker_prefix(data, position)
        if keep > position:
            parts.append(data[position:keep])
        self._pending = data[keep:]
        return parts

    def rest(self) -> bytes:
        """Return the bytes held back because they could have begun a message, once nothing more can come."""
        rest, self._pending = self._pending, b""
        return rest

    def _parse(self, data: bytes, start: int) -> tuple[Message | None, int]:
        position = start + len(self._marker)
        kind = _KINDS.get(data[position : position + 1])
        if kind is None:
            return None, start
        position += 1
        fields = []
        for _ in range(_FIELD_COUNTS[kind]):
            end = data.find(b"\0", position)
            if end < 0:
                return None, start
            fields.append(data[position:end])
            position = end + 1
        return Message(kind, tuple(fields)), position

    def _marker_prefix(self, data: bytes, position: int) -> int:
        """Return the index at which the end of `data` may begin a marker; its length if it can't."""
        start = max(position, len(data) - len(self._marker) + 1)
        while (start := data.find(b"\x1e", start)) >= 0:
            if self._marker.startswith(data[start:]):
                return start
            start += 1
        return len(data)
