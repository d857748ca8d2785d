"""What a text would run, in all shells that may run it."""

from __future__ import annotations

from dataclasses import dataclass

from environments.approvals.command import Command
from environments.approvals.reading.budget import MAX_CHARACTERS, TooMuchError
from environments.approvals.reading.reader import Reader


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found in a text."""

    commands: tuple[Command, ...] = ()
    """All commands, also those that others run in their turn."""
    findings: tuple[str, ...] = ()
    """What is dangerous, or cannot be seen through, and is no command's own."""
    unread: str = ""
    """Why there may be more in it than was found."""


def read(text: str, start: str = "") -> Reading:
    """Read shell text, without running any of it.

    Args:
        text: Shell text.
        start: The absolute directory where it begins; empty if not known.
    """
    if len(text) > MAX_CHARACTERS:
        return Reading(unread=f"it is too long to be judged: {len(text):,} characters of at most {MAX_CHARACTERS:,}")
    reader = Reader(start)
    reading = _read_by(reader, text)
    if reader.differs:
        other = _read_by(Reader(start, posix=True), text)
        both = reading.commands + other.commands, reading.findings + other.findings
        return Reading(*both, reading.unread or other.unread)
    return reading


def _read_by(reader: Reader, text: str) -> Reading:
    unread = ""
    try:
        reader.read(text)
    except TooMuchError as error:
        unread = str(error)
    except RecursionError:  # a caller may have left little room
        unread = "it is nested too deep to be judged"
    if reader.unclosed and not unread:
        unread = "it ends within a quote, a parenthesis or a brace, so that it cannot be judged"
    return Reading(tuple(reader.commands), tuple(reader.findings), unread)
