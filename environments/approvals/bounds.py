"""Bounds of what is read, so that reading ends soon whatever a text holds."""

from __future__ import annotations

import time

MAX_CHARACTERS = 50_000
"""A longer text is not read at all. Commands that carry a file in a here-document are mostly shorter."""
MAX_VALUE = 20_000
"""Characters of a longer value or output are not followed: values made of values grow fast."""
_MAX_COST = 3 * MAX_CHARACTERS
_MAX_SECONDS = 0.2
"""The time of the processor after which reading ends. Everyday commands take a thousandth of it."""


class TooMuchError(Exception):
    """The text is too long, or unfolds to too much, to be judged."""

    def __init__(self) -> None:
        super().__init__("it is too long, or unfolds to too much, to be judged")


class Bounds:
    """Time and characters that are left for a text."""

    def __init__(self) -> None:
        self._left = _MAX_COST
        self._ends = time.thread_time() + _MAX_SECONDS

    def is_late(self, *_: object) -> bool:
        """Return True if the time has passed."""
        return time.thread_time() > self._ends

    def spend(self, characters: int) -> None:
        """Take characters off those that are left.

        Raises:
            TooMuchError: None are left.
        """
        self._left -= characters
        if self._left < 0:
            raise TooMuchError
