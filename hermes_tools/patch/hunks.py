"""Search for the places of a patch's hunks in a file."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

from hermes_tools.files.lines import quoted
from hermes_tools.interruption import raise_if_interrupted
from hermes_tools.patch.closest_place import closest_place
from hermes_tools.patch.text_file import Edit, TextFile
from hermes_tools.patch.v4a import Hunk

_NAMED_PLACES = 20
_STEPS, _STEPS_PER_LINE = 5_000_000, 100
"""Budget of line comparisons for the hunks of a file, so that time grows with the number of lines."""
_STEPS_OF_A_PLACE = 20
"""Cost of a look at a place, in comparisons of two lines."""


class TooManyStepsError(Exception):
    """The budget of comparisons is used up."""


class Steps:
    """The remaining budget of line comparisons, shared by all searches in a file."""

    def __init__(self, most: int) -> None:
        self._left = most

    def spend(self, count: int) -> None:
        """Spend comparisons.

        Raises:
            TooManyStepsError: The budget is used up.
            ToolInterruptedError: The script that called the tool has ended.
        """
        raise_if_interrupted()
        self._left -= count
        if self._left < 0:
            raise TooManyStepsError


class LineIndex:
    """Finds lines in a file.

    Args:
        lines: Lines of the file.
        steps: Budget of the search.
    """

    def __init__(self, lines: Sequence[str], steps: Steps) -> None:
        self.lines = lines
        self._steps = steps
        self._positions: defaultdict[str, list[int]] = defaultdict(list)
        for at, line in enumerate(lines):
            self._positions[line].append(at)

    def places(self, wanted: Sequence[str], first: int) -> Iterator[int]:
        """Yield the places of consecutive lines, from a line on.

        Looks only at occurrences of the rarest line. Raises the errors of `Steps.spend`.
        """
        self._steps.spend(len(wanted))
        rarest = min(range(len(wanted)), key=lambda at: len(self._positions.get(wanted[at], ())))
        candidates = self._positions.get(wanted[rarest], [])
        for number in range(bisect_left(candidates, first + rarest), len(candidates)):
            self._steps.spend(_STEPS_OF_A_PLACE + len(wanted))
            at = candidates[number] - rarest
            if self.lines[at : at + len(wanted)] == wanted:
                yield at

    def first_equal(self, wanted: str, span: range) -> int | None:
        """Return the first equal line of a span, or None."""
        positions = self._positions.get(wanted, [])
        number = bisect_left(positions, span.start)
        return positions[number] if number < len(positions) and positions[number] in span else None

    def first_beginning(self, wanted: str, span: range) -> int | None:
        """Return the first line of a span with this beginning, or None. Raises the errors of `Steps.spend`."""
        self._steps.spend(len(span))
        return next((at for at in span if self.lines[at].startswith(wanted)), None)


class HunkError(Exception):
    """A hunk has no place in the file, or several. The message names the hunk and the lines."""


def hunk_edits(file: TextFile, hunks: Sequence[Hunk]) -> list[Edit]:
    """Return the edits of hunks, in order. Each hunk is searched below the hunk before.

    Raises:
        HunkError: A hunk has no place, or several.
    """
    lines = file.text.split("\n")
    unended = lines[-1] != ""
    if not unended:
        lines.pop()
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(file.text)
    places = _Places(lines, sum(len(hunk.lines) for hunk in hunks))
    edits: list[Edit] = []
    cursor = 0
    for hunk in hunks:
        try:
            at = places.of(hunk, cursor)
        except TooManyStepsError:
            raise HunkError(
                f"hunk {hunk.number}: its lines and '@@' lines are like too many others of the file to look through; "
                "give it rarer lines"
            ) from None
        edits += _edits_at(hunk, at, starts, unended)
        cursor = at + len(hunk.old)
    return edits


class _Places:
    """Finds the places of hunks in the lines of a file."""

    def __init__(self, lines: list[str], hunk_lines: int) -> None:
        self._lines = lines
        self._steps = Steps(_STEPS + _STEPS_PER_LINE * (len(lines) + hunk_lines))

    @cached_property
    def _exact(self) -> LineIndex:
        return LineIndex(self._lines, self._steps)

    @cached_property
    def _unended(self) -> LineIndex:
        """Lines without trailing white space."""
        return LineIndex([line.rstrip() for line in self._lines], self._steps)

    @cached_property
    def _stripped(self) -> LineIndex:
        return LineIndex([line.strip() for line in self._lines], self._steps)

    def of(self, hunk: Hunk, cursor: int) -> int:
        """Return the first line of a hunk's place, at `cursor` or below."""
        first = cursor
        for hint in hunk.hints:
            first = self._hinted(hint, first, hunk)
        old = hunk.old
        if not old:
            return self._of_added(hunk, first, cursor)
        first = max(first, cursor)
        if hunk.at_end:
            places = self._at_end(old, first)
        else:
            places = self._matches(old, first, 1 if hunk.hints else _NAMED_PLACES + 1)
        if not places:
            raise HunkError(self._missing(hunk, old, first))
        if len(places) > 1:
            numbers = [str(at + 1) for at in places[:_NAMED_PLACES]] + ["..."] * (len(places) > _NAMED_PLACES)
            raise HunkError(
                f"hunk {hunk.number} fits at several places, lines {', '.join(numbers)}: give it more context, or a "
                "'@@' line"
            )
        return places[0]

    def _of_added(self, hunk: Hunk, first: int, cursor: int) -> int:
        if hunk.at_end or not self._lines:
            return len(self._lines)
        if hunk.hints:
            return max(first + 1, cursor)
        raise HunkError(
            f"hunk {hunk.number} only adds lines and names no place: give it a line of context, a '@@' line, "
            "or '*** End of File'"
        )

    def _hinted(self, hint: str, first: int, hunk: Hunk) -> int:
        # A second hunk in the same function repeats the hint; the hint's line is then above the first hunk.
        for span in (range(first, len(self._lines)), range(first)):
            for look in (self._stripped.first_equal, self._stripped.first_beginning):
                if (at := look(hint, span)) is not None:
                    return at
        raise HunkError(f"hunk {hunk.number}: there is no line {quoted(hint)}; " + closest_place(self._lines, [hint]))

    def _matches(self, old: list[str], first: int, most: int) -> list[int]:
        """Return the places with an exact match, or else those with only different trailing white space."""
        if exact := list(islice(self._exact.places(old, first), most)):
            return exact
        return list(islice(self._unended.places([line.rstrip() for line in old], first), most))

    def _at_end(self, old: list[str], first: int) -> list[int]:
        at = len(self._lines) - len(old)
        has = [line.rstrip() for line in self._lines[max(at, 0) :]]
        return [at] if at >= first and has == [line.rstrip() for line in old] else []

    def _missing(self, hunk: Hunk, old: list[str], first: int) -> str:
        earlier = self._matches(old, 0, 1)
        if not earlier:
            return f"hunk {hunk.number} was not found; " + closest_place(self._lines, old)
        if hunk.at_end:
            return f"hunk {hunk.number} is not at the end of the file but at line {earlier[0] + 1}"
        return (
            f"hunk {hunk.number} was not found from line {first + 1} on, only at line {earlier[0] + 1}: "
            "hunks stand in the order of the file, below their '@@' line"
        )


def _edits_at(hunk: Hunk, at: int, starts: list[int], unended: bool) -> list[Edit]:
    """Make an edit of each run of '-' and '+' lines, so that context keeps its own text and line ends."""
    edits: list[Edit] = []
    line, run_start = at, at
    added: list[str] = []
    changing = False
    for hunk_line in (*hunk.lines, None):
        if hunk_line is not None and hunk_line.kind != " ":
            if not changing:
                run_start, changing = line, True
            if hunk_line.kind == "-":
                line += 1
            else:
                added.append(hunk_line.text)
            continue
        if changing:
            edits.append(_edit(starts, run_start, line, added, unended))
            added, changing = [], False
        line += 1
    return edits


def _edit(starts: list[int], first: int, after: int, added: list[str], unended: bool) -> Edit:
    start, end = starts[first], starts[after]
    new = "".join(f"{text}\n" for text in added)
    if unended and after == len(starts) - 1:
        # The file's last line has no newline, and the new last line gets none either.
        if first < after:
            return Edit(start, end, new.removesuffix("\n"))
        return Edit(start, end, "\n" + new.removesuffix("\n"))
    return Edit(start, end, new)
