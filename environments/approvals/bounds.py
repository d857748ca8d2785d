"""Bounds of what is read, so that reading ends soon whatever a text holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

MAX_CHARACTERS = 50_000
"""A longer text is not read at all. Commands that carry a file in a here-document are mostly shorter."""
MAX_VALUE = 20_000
"""Characters of a longer value or output are not followed: values made of values grow fast."""
_MAX_DEPTH = 24
_MAX_NESTING = 120
_MAX_COST = 3 * MAX_CHARACTERS
_COST = 25
"""The cost of a command in characters, beside its own: judging one takes as long as reading so many."""
_MAX_SECONDS = 0.2
"""The time of the processor after which reading ends. Everyday commands take a thousandth of it."""
_TOO_LONG = "it is too long, or unfolds to too much, to be judged"
_TOO_DEEP = "it is nested too deep to be judged"


class TooMuchError(Exception):
    """The text is too long, nested too deep, or unfolds to too much, to be judged."""

    def __init__(self, message: str = _TOO_LONG) -> None:
        super().__init__(message)


class Bounds:
    """Time, characters and depth that are left for a text.

    Raises:
        TooMuchError: From each method, where nothing is left.
    """

    def __init__(self) -> None:
        self._left = _MAX_COST
        self._ends = time.thread_time() + _MAX_SECONDS
        self._depth = self._nesting = 0

    def is_late(self, *_: object) -> bool:
        """Return True if the time has passed."""
        return time.thread_time() > self._ends

    def spend(self, characters: int) -> None:
        """Take characters off those that are left."""
        self._left -= characters
        if self._left < 0:
            raise TooMuchError

    def spend_command(self, characters: int) -> None:
        """Take a command off what is left, and look at the time."""
        self.spend(_COST + characters)
        if self.is_late():
            raise TooMuchError

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Enter a text, a function or a substitution within others."""
        if self._depth >= _MAX_DEPTH:
            raise TooMuchError(_TOO_DEEP)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def enter(self) -> None:
        """Enter a statement, of which few may stand in each other; `leave` leaves it."""
        if self._nesting >= _MAX_NESTING:
            raise TooMuchError(_TOO_DEEP)
        self._nesting += 1

    def leave(self) -> None:
        """Leave a statement."""
        self._nesting -= 1
