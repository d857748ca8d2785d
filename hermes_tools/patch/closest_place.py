"""Where in a file the text that was not found might have been meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_COMPARED_LINES = 20_000
"""Fuzzy comparison of more lines than this takes seconds."""
_SHOWN_CHARACTERS = 120


def closest_place(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Say which line of a file is closest to the wanted lines, and how it differs.

    The place is the window that has most of the wanted lines, whatever their indentation; and without any, the
    line most like the first wanted one.
    """
    has = [line.strip() for line in lines]
    wants = [line.strip() for line in wanted]
    starts = range(max(1, len(has) - len(wants) + 1))
    best = max(starts, key=lambda start: _shared(has, wants, start))
    if _shared(has, wants, best):
        for number, (line, want) in enumerate(zip(lines[best:], wanted, strict=False), best):
            if line != want:
                return f"closest place: line {number + 1} is {_quoted(line)} where {_quoted(want)} was expected"
        return f"closest place: line {best + 1}, {_quoted(lines[best])}"
    target = next((want for want in wants if want), "")
    near = difflib.get_close_matches(target, has[:_COMPARED_LINES], n=1, cutoff=0.4)
    if not near:
        return "nothing in the file is like it"
    number = has.index(near[0])
    return f"closest place: line {number + 1}, {_quoted(lines[number])}"


def _shared(has: Sequence[str], wants: Sequence[str], start: int) -> int:
    pairs = zip(has[start : start + len(wants)], wants, strict=False)
    return sum(1 for line, want in pairs if want and line == want)


def _quoted(line: str) -> str:
    cut = line if len(line) <= _SHOWN_CHARACTERS else line[:_SHOWN_CHARACTERS] + "..."
    return repr(cut)
