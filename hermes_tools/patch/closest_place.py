"""Where in a file the text that was not found might have been meant."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from hermes_tools.files.lines import quoted
from hermes_tools.files.target_paths import near_misses

_COMPARED_LINES = 20_000
"""Fuzzy comparison of more lines than this takes seconds."""
_MOST_VOTES = 500_000
"""Pairs of equal lines that are counted; lines that come very often tell little about the place."""


def closest_place(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Say which line of a file is closest to the wanted lines, and how it differs.

    The place is the window that has most of the wanted lines, whatever their indentation; and without any, the
    line most like the first wanted one.
    """
    has = [line.strip() for line in lines]
    wants = [line.strip() for line in wanted]
    best = _best_window(has, wants)
    if best is not None:
        for number, (line, want) in enumerate(zip(lines[best:], wanted, strict=False), best):
            if line != want:
                return f"closest place: line {number + 1} is {quoted(line)} where {quoted(want)} was expected"
        return f"closest place: line {best + 1}, {quoted(lines[best])}"
    target = next((want for want in wants if want), "")
    near = near_misses(target, has[:_COMPARED_LINES], most=1, cutoff=0.4)
    if not near:
        return "nothing in the file is like it"
    number = has.index(near[0])
    return f"closest place: line {number + 1}, {quoted(lines[number])}"


def _best_window(has: Sequence[str], wants: Sequence[str]) -> int | None:
    """Return where most of the wanted lines stand at the same distance from each other, or None if there are none.

    Each line of the file votes for the windows that it would be right in. The rarest vote first.
    """
    offsets = defaultdict(list)
    for offset, want in enumerate(wants):
        if want:
            offsets[want].append(offset)
    counts = Counter(line for line in has if line in offsets)
    voters = set()
    room = _MOST_VOTES
    for line in sorted(counts, key=lambda line: counts[line] * len(offsets[line])):
        room -= counts[line] * len(offsets[line])
        if room >= 0:
            voters.add(line)
    last = max(0, len(has) - len(wants))
    votes = Counter(
        at - offset
        for at, line in enumerate(has)
        if line in voters
        for offset in offsets[line]
        if 0 <= at - offset <= last
    )
    if votes:
        return max(votes, key=lambda start: (votes[start], -start))
    return next((min(at, last) for at, line in enumerate(has) if line in counts), None) if counts else None
