"""The closest place in a file for a text that was not found, for error messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from hermes_tools.files.lines import quoted
from hermes_tools.files.target_paths import near_misses

_COMPARED_LINES = 20_000
"""Limit for fuzzy comparison, which takes seconds for more lines."""
_MAX_VOTES = 500_000
"""Limit for counted pairs of equal lines; very common lines contribute little."""


def closest_place(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Return a sentence about the line closest to the wanted lines, and about the difference.

    The place is the window with most of the wanted lines, ignoring indentation. Without any such line, the place is the
    line most similar to the first wanted line.
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
    """Return the start of the window with most wanted lines at the right distances, or None if there are none.

    Each line of the file votes for the windows where the line would fit. The rarest lines vote first.
    """
    offsets = defaultdict(list)
    for offset, want in enumerate(wants):
        if want:
            offsets[want].append(offset)
    counts = Counter(line for line in has if line in offsets)
    voters = set()
    room = _MAX_VOTES
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
