"""Tables of names, written as one text."""

from __future__ import annotations


def names(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
