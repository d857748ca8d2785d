"""Lines and numbers that a target printed, in a bounded length."""

from __future__ import annotations

MAX_LINE_CHARACTERS = 2000
MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS + 1
"""What the target sends of a line: a UTF-8 character has at most 4 bytes, so a line cut here is over the limit."""

_QUOTED_CHARACTERS = 120
LONGEST = 18
"""Digits of a number that is taken: programs of the target count in 64 bits."""


def cut_line(line: str) -> str:
    """Return a line without its carriage return, and with a note where it was cut for its length."""
    line = line.removesuffix("\r")
    if len(line) <= MAX_LINE_CHARACTERS:
        return line
    return f"{line[:MAX_LINE_CHARACTERS]} [line cut after {MAX_LINE_CHARACTERS} characters]"


def quoted(line: str) -> str:
    """Return a line in quotes for a message, with dots where it was cut for its length."""
    return repr(line if len(line) <= _QUOTED_CHARACTERS else f"{line[:_QUOTED_CHARACTERS]}...")


def number(text: str) -> int | None:
    """Return the number that a text consists of, or None if it is none, or too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else None
