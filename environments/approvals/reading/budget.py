"""How much of a text is read before it counts as one that cannot be judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

MAX_CHARACTERS = 100_000
"""A longer text is not read at all. Commands that carry a file in a here-document are mostly shorter."""
MAX_DEPTH = 24
"""Substitutions within substitutions, and commands carried by commands."""
PER_COMMAND = 25
"""What a command costs beside its characters: judging one takes as long as reading so many."""
_REREADING = 3
"""How often a character may be read on the whole, as part of what is carried or expanded."""


class TooMuchError(Exception):
    """The text is too long, or nested too deep, to be judged."""


class Budget:
    """What reading one text may cost, so that the time is linear in its length whatever it holds."""

    def __init__(self) -> None:
        self.unclosed = False
        """Whether a text has ended within a quote, a parenthesis or a brace, of which shells make different things."""
        self.differs = False
        """Whether a text has held what the lexer reads otherwise as sh than as bash."""
        self._left = MAX_CHARACTERS * _REREADING
        self._depth = 0

    def spend(self, characters: int) -> None:
        """Note that so many characters are read or made. Raises TooMuchError when there were too many."""
        self._left -= characters
        if self._left < 0:
            raise TooMuchError("it is too long, or unfolds to too much, to be judged")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Go one level down for the block. Raises TooMuchError when there were too many."""
        if self._depth >= MAX_DEPTH:
            raise TooMuchError("it is nested too deep to be judged")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
