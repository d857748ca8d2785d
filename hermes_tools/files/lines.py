"""Lines and numbers in a target's output, with bounded length."""

from __future__ import annotations

MAX_LINE_CHARACTERS = 2000
MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS + 1
"""Bytes of a line sent by the target: a UTF-8 character has at most 4 bytes, so a line cut here is over the limit."""

_QUOTED_CHARACTERS = 120
MAX_DIGITS = 18
"""Limit for the digits of a number: programs of the target count in 64 bits."""


def cut_line(line: str) -> str:
    """Return a line without carriage return; a line that is too long is cut, with a note."""
    line = line.removesuffix("\r")
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    return f"{line[:MAX_LINE_CHARACTERS]} [line cut after {MAX_LINE_CHARACTERS} characters]"


def quoted(line: str) -> str:
    """Return a line in quotes for a message; a long line ends in dots."""
    return repr(line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}...")


def number(text: str) -> int | None:
    """Return the number in a text, or None for no number or too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None
