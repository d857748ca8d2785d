"""The budget of reading a shell text: characters and processor time, so that hostile text is given up soon."""

from __future__ import annotations

import time

MAX_CHARACTERS = 50_000
"""Limit of a text. Commands with a whole file in a here-document are mostly shorter."""
MAX_VALUE = 20_000
"""Limit of a followed value or output, in characters: values made of values grow fast."""
_MAX_COST = 3 * MAX_CHARACTERS
_MAX_SECONDS = 0.2
"""Limit of processor time. Everyday commands take a thousandth."""


class TooMuchError(Exception):
    """The text is too long, or unfolds to too much, to be judged."""

    def __init__(self) -> None:
        super().__init__("it is too long, or unfolds to too much, to be judged")


class Budget:
    """The time and characters left for reading a text."""

    def __init__(self) -> None:
        self._left = _MAX_COST
        self._ends = time.thread_time() + _MAX_SECONDS

    def is_late(self, *_: object) -> bool:
        """Return True once the time is up."""
        return time.thread_time() > self._ends

    def spend(self, characters: int) -> None:
        """Charge characters.

        Raises:
            TooMuchError: The budget is exceeded.
        """
        self._left -= characters
        if self._left < 0:
            raise TooMuchError
