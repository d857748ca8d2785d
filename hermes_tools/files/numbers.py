"""Reading numbers that a target printed, which is not trusted to print any."""

from __future__ import annotations

LONGEST = 18
"""Digits of a number that is taken: programs of the target count in 64 bits."""


def number(text: str) -> int | None:
    """Return the number that a text consists of, or None if it is none, or too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else None
