"""Framing: tells a command's output from the shell's own messages on the same stream.

A message is a record separator (byte 30), a nonce known to the shell and to this process alone, a space, a letter for
the kind, and then fields. Each field ends in NUL. All other bytes are output, unchanged. Byte 30 comes first because
output rarely ends in this byte: output at the end of a read that may begin a message has to be held back.

Each message but READY carries the number of a request. A message about an earlier request is thus never taken for the
current request's.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The kind of a message."""

    __hash__ = object.__hash__  # members are singletons, and hashing a name takes ten times as long

    READY = b"R"
    """The shell runs. Fields: pid, dialect name, 1 if the start directory could not be entered, home directory, then
    the watched variables."""
    BEGIN = b"B"
    """The command's output begins here. Fields: number."""
    END = b"E"
    """The command ended, and the shell goes on. Fields: number, exit code, 1 if a process of the command is left."""
    SESSION_END = b"M"
    """END of a command in the session's own shell. Fields as for END, then `SESSION_FIELDS`."""
    EXIT = b"F"
    """The command ended the shell too. Fields as for END."""
    SESSION_EXIT = b"X"
    """EXIT of the session's own shell. Fields as for SESSION_END."""
    STATE = b"S"
    """A state report. Fields: number, SHELLOPTS, BASHOPTS, exports and umask, functions and aliases (each as shell text
    for a restore), and the number again: a report without the second number is incomplete."""
    PIECE = b"P"
    """One line of a state report, used while other processes write to the same channel. Fields: number, part (1 or 2),
    line."""
    PIECES = b"T"
    """The end of a state report in pieces. Fields: number, SHELLOPTS, BASHOPTS, count of lines, count of characters."""


WATCHED = ("PWD", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONSAFEPATH", "PATH")
"""Variables with values known here after every command: the working directory, and all variables that select a script's
Python and its modules."""
SESSION_FIELDS = (*WATCHED, "OLDPWD")
"""The variables in SESSION_END and SESSION_EXIT."""
PLACE_FIELDS = ("PWD", "OLDPWD")
"""The directories among them."""
FIELDS_OF = {Kind.SESSION_END: SESSION_FIELDS, Kind.SESSION_EXIT: SESSION_FIELDS}
"""The variables in a message, by kind."""

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
        """The number of the message's request; -1 if unreadable."""
        return _number(self.fields[0])

    @property
    def exit_code(self) -> int | None:
        """The exit code in END, EXIT and their session forms; None if unreadable."""
        return None if (code := _number(self.fields[1])) < 0 else code

    def text(self, index: int) -> str:
        """Return a field as text."""
        return self.fields[index].decode("utf-8", "surrogateescape")


def _number(field: bytes) -> int:
    # Code in the shell can forge a message, and Python refuses to parse thousands of digits.
    return int(field) if field.isdigit() and len(field) <= _MOST_DIGITS else -1


MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Largest message in bytes. Reports of all exports and functions of a session are the longest messages."""


class FrameScanner:
    """Splits a stream, fed in pieces of any size, into output and messages."""

    def __init__(self, nonce: str) -> None:
        self._marker = b"\x1e" + nonce.encode() + b" "
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._missing = 0
        """Count of fields the pending message lacks; 0 if the pending bytes may be no message."""

    def feed(self, data: bytes) -> list[bytes | Message]:
        """Add the next bytes, and return the completed parts in order."""
        if self._pending:
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes > MAX_MESSAGE_BYTES:  # no real message is so long: forged, so handed out as output
                return [self._taken()]
            self._missing -= data.count(b"\0")
            if self._missing > 0:
                return []
            data = self._taken()
        if b"\x1e" not in data:  # a search for one byte takes a fifth of the time, most of the cost of a large output
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
        # Only the end of the piece can hold a marker cut in two. Searching all of it each time would make large outputs
        # quadratic.
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
        """Return the bytes held back as a possible message, once the stream has ended.

        An incomplete message is no output, and is dropped.
        """
        rest = self._taken()
        return b"" if rest.startswith(self._marker) else rest

    def _parse(self, data: bytes, start: int) -> tuple[bytes | Message | None, int]:
        """Return the message at a marker and its end; None if the message is incomplete."""
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
        """Return the index of a possible marker at the end of `data`, or the length of `data`."""
        start = max(position, len(data) - len(self._marker) + 1)
        while (start := data.find(b"\x1e", start)) >= 0:
            if self._marker.startswith(data[start:]):
                return start
            start += 1
        return len(data)
