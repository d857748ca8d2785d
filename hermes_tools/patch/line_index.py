"""Looking for runs of lines in a file, many times, without going through the file each time."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hermes_tools.interruption import raise_if_interrupted

_STEPS_OF_A_PLACE = 20
"""What it costs to look at one place, in comparisons of two lines."""


class TooManyStepsError(Exception):
    """More was to be compared than is allowed."""


class Steps:
    """How many comparisons of lines are left, for all searches in a file together."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Take some.

        Raises:
            TooManyStepsError: There are not so many left.
            ToolInterruptedError: Nobody waits for them any more.
        """
        raise_if_interrupted()
        self._left -= count
        if self._left < 0:
            raise TooManyStepsError


class LineIndex:
    """Finds lines in a file.

    Args:
        lines: The file's.
        steps: Pays for looking.
    """

    def __init__(self, lines: Sequence[str], steps: Steps) -> None:
        self.lines = lines
        self._steps = steps
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for at, line in enumerate(lines):
            self._positions[line].append(at)

    def places(self, wanted: Sequence[str], first: int) -> Iterator[int]:
        """Go through the places where these lines stand one after the other, from a line on.

        Looks only where the rarest of them is. Raises what `Steps.take` raises.
        """
        self._steps.take(len(wanted))
        rarest = min(range(len(wanted)), key=lambda at: len(self._positions.get(wanted[at], ())))
        candidates = self._positions.get(wanted[rarest], [])
        for number in range(bisect_left(candidates, first + rarest), len(candidates)):
            self._steps.take(_STEPS_OF_A_PLACE + len(wanted))
            at = candidates[number] - rarest
            if self.lines[at : at + len(wanted)] == wanted:
                yield at

    def first_equal(self, wanted: str, span: range) -> int | None:
        """Return the first line of a span that is equal, or None."""
        positions = self._positions.get(wanted, [])
        number = bisect_left(positions, span.start)
        return positions[number] if number < len(positions) and positions[number] in span else None

    def first_beginning(self, wanted: str, span: range) -> int | None:
        """Return the first line of a span that begins like this, or None. Raises what `Steps.take` raises."""
        self._steps.take(len(span))
        return next((at for at in span if self.lines[at].startswith(wanted)), None)
