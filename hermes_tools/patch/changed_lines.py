"""Which lines differ between two texts, in time that grows with their length and not with its square.

difflib alone takes minutes for tens of thousands of changes in one file, which `replace_all` can make.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hermes_tools.interruption import raise_if_interrupted

_FULLY_COMPARED = 200_000_000
"""How much difflib may look for the smallest differences of parts without any anchor, all together. What it takes grows
with the cube of a part's length, where few different lines come again and again: this much is 2 s."""
_LOOKS_AT_A_LINE = 20
"""How often each line may be looked at for anchors, which can be such that every one reveals but one more."""


@dataclass(frozen=True, slots=True)
class Change:
    """`old[old_start:old_end]` became `new[new_start:new_end]`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Compare two texts by lines, and return the parts that differ in order.

    Lines that each text has once serve as anchors (patience diff), and what lies between them is compared alone.
    """
    i = j = 0
    for match_i, match_j in [*sorted(_matches(old, new)), (len(old), len(new))]:
        if match_i > i or match_j > j:
            yield Change(i, match_i, j, match_j)
        i, j = match_i + 1, match_j + 1


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    parts = [Change(0, len(old), 0, len(new))]
    looks, comparisons = _LOOKS_AT_A_LINE * (len(old) + len(new)), _FULLY_COMPARED
    while parts:
        raise_if_interrupted()
        part = parts.pop()
        i, i_end, j, j_end = part.old_start, part.old_end, part.new_start, part.new_end
        while i < i_end and j < j_end and old[i] == new[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
            i_end, j_end = i_end - 1, j_end - 1
            found.append((i_end, j_end))
        if i == i_end or j == j_end:
            continue
        height, width = i_end - i, j_end - j
        looks -= height + width
        anchors = _anchors(old, new, Change(i, i_end, j, j_end)) if looks >= 0 else []
        if anchors:
            for anchor_i, anchor_j in [*anchors, (i_end, j_end)]:
                parts.append(Change(i, anchor_i, j, anchor_j))
                i, j = anchor_i + 1, anchor_j + 1
            found += anchors
        elif (cost := height * width * min(height, width)) <= comparisons:
            comparisons -= cost
            blocks = SequenceMatcher(None, old[i:i_end], new[j:j_end], autojunk=False).get_matching_blocks()
            found += [(i + block.a + n, j + block.b + n) for block in blocks for n in range(block.size)]
    return found


def _anchors(old: Sequence[str], new: Sequence[str], part: Change) -> list[tuple[int, int]]:
    """Return the most lines that both have once and that stand in the same order."""
    old_lines, new_lines = old[part.old_start : part.old_end], new[part.new_start : part.new_end]
    counts = Counter(new_lines)
    once = {line: at for at, line in enumerate(new_lines, part.new_start) if counts[line] == 1}
    counts = Counter(old_lines)
    pairs = [
        (at, once[line]) for at, line in enumerate(old_lines, part.old_start) if line in once and counts[line] == 1
    ]
    # Patience sorting: the longest run of pairs that rises in both texts.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [number]
    chosen = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]
