"""Telling a command's output from what the shell around it says to us, on the same stream.

The shell speaks in messages: a record separator (byte 30), a nonce that only we and the shell know, a space, a letter
for the kind, and then fields that each end in NUL. Whatever is not a message is output, byte for byte. The first byte
is one that output hardly ever ends in, because output that may be the beginning of a message has to be held back.

All messages but READY name the number of the request they belong to, so that what was said about an earlier one is
never taken for this one's.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a message says."""

    __hash__ = object.__hash__  # each is the only one of its kind, and to hash its name takes ten times as long

    READY = b"R"
    """The shell runs. Fields: its pid, its name, 1 if it could not enter the directory it was to start in, the home
    directory, then the watched variables."""
    BEGIN = b"B"
    """What comes from here on is the command's. Fields: number."""
    END = b"E"
    """The command ended, and the shell goes on. Fields: number, exit code, 1 if something of it is left."""
    SESSION_END = b"M"
    """The same of a command in the session's own shell, with `SESSION_FIELDS` behind it."""
    EXIT = b"F"
    """The command ended the shell with it. Fields as for END."""
    SESSION_EXIT = b"X"
    """The same of the session's own shell. Fields as for SESSION_END."""
    STATE = b"S"
    """What the shell holds. Fields: number, SHELLOPTS, BASHOPTS, exports and umask, functions and aliases (each as
    shell text that brings them back), and the number again: without it the report is not whole."""
    PIECE = b"P"
    """One line of such a report, where others write on the same channel. Fields: number, part (1 or 2), line."""
    PIECES = b"T"
    """The end of such a report. Fields: number, SHELLOPTS, BASHOPTS, how many lines, how many characters they have."""


WATCHED = ("PWD", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONSAFEPATH", "PATH")
"""Variables whose values are known here after every command: the working directory, and what names the Python of a
script and what this can import."""
SESSION_FIELDS = (*WATCHED, "OLDPWD")
"""What SESSION_END and SESSION_EXIT bring along."""
PLACE_FIELDS = ("PWD", "OLDPWD")
"""Of these the directories."""
FIELDS_OF = {Kind.SESSION_END: SESSION_FIELDS, Kind.SESSION_EXIT: SESSION_FIELDS}
"""The variables in a message."""

_FIELD_COUNTS = {
    Kind.READY: 4 + len(WATCHED),
    Kind.BEGIN: 1,
    Kind.END: 3,
    Kind.EXIT: 3,
    **{kind: 3 + len(fields) for kind, fields in FIELDS_OF.items()},
    Kind.STATE: 6,
    Kind.PIECE: 3,
    Kind.PIECES: 5,
}
_MOST_DIGITS = 18
_KINDS = {kind.value: kind for kind in Kind}


class Message(NamedTuple):
    """One message of the shell."""

    kind: Kind
    fields: tuple[bytes, ...]

    @property
    def number(self) -> int:
        """The request it belongs to; -1 for what cannot be read."""
        return _number(self.fields[0])

    @property
    def exit_code(self) -> int | None:
        """How the request it belongs to ended, in those kinds that say it; None for what cannot be read."""
        return None if (code := _number(self.fields[1])) < 0 else code

    def text(self, index: int) -> str:
        """Return a field as text."""
        return self.fields[index].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    # Who runs in the shell can forge a message, and Python refuses to read thousands of digits.
    return int(field) if field.isdigit() and len(field) <= _MOST_DIGITS else -1


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""How long a message may be. Reports of all that a session exports are the longest."""


class FrameScanner:
    """Splits a stream, fed in pieces of any size, into output and messages."""

    def __init__(self, nonce: str) -> None:
        self._marker = b"\x1e" + nonce.encode() + b" "
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._missing = 0
        """How many fields the message that is pending lacks; 0 if it may be none."""

    def feed(self, data: bytes) -> list[bytes | Message]:
        """Take the next bytes and return what they complete, in order."""
        if self._pending:
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes > MAX_MESSAGE_BYTES:  # no shell of ours says so much: whoever forged it may have it
                return [self._taken()]
            self._missing -= data.count(b"\0")
            if self._missing > 0:
                return []
            data = self._taken()
        if b"\x1e" not in data:  # to look for one byte takes a fifth of the time, and of a large output is most of it
            self._missing = 0
            return [data] if data else []
        parts: list[bytes | Message] = []
        position = 0
        while (found := data.find(self._marker, position)) >= 0:
            if found > position:
                parts.append(data[position:found])
            part, position = self._parse(data, found)
            if part is None:
                self._hold(data[found:])
                return parts
            parts.append(part)
        self._missing = 0
        if position == len(data):
            return parts
        # Only the end of the piece can hold a marker cut in two: searching all of it again each time is what
        # makes large outputs quadratic.
        keep = self._marker_prefix(data, position)
        if keep > position:
            parts.append(data[position:keep])
        self._hold(data[keep:])
        return parts

    def _hold(self, data: bytes) -> None:
        self._pending, self._pending_bytes = [data] if data else [], len(data)

    def _taken(self) -> bytes:
        data = b"".join(self._pending)
        self._hold(b"")
        return data

    def rest(self) -> bytes:
        """Return the bytes held back because they could have begun a message, once nothing more can come.

        What did begin one is not output.
        """
        rest = self._taken()
        return b"" if rest.startswith(self._marker) else rest

    def _parse(self, data: bytes, start: int) -> tuple[bytes | Message | None, int]:
        """Return what begins with a marker, None if it is not complete, and where it ends."""
        position = start + len(self._marker)
        letter = data[position : position + 1]
        if not letter:
            self._missing = 0
            return None, start
        position += 1
        kind = _KINDS.get(letter)
        if kind is None:
            return data[start:position], position
        count = _FIELD_COUNTS[kind]
        *fields, rest = data[position:].split(b"\0", count)
        if len(fields) < count:
            self._missing = count - len(fields)
            return None, start
        return Message(kind, tuple(fields)), len(data) - len(rest)

    def _marker_prefix(self, data: bytes, position: int) -> int:
        """Return the index at which the end of `data` may begin a marker; its length if it can't."""
        start = max(position, len(data) - len(self._marker) + 1)
        while (start := data.find(b"\x1e", start)) >= 0:
            if self._marker.startswith(data[start:]):
                return start
            start += 1
        return len(data)
