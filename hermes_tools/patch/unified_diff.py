"""The unified diff of a file, with the numbers of added and removed lines."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hermes_tools.interruption import raise_if_interrupted

_CONTEXT = 3
"""Lines of context on either side of a change."""
_FULLY_COMPARED = 200_000_000
"""Budget of difflib for parts without an anchor, all together. The cost grows with the cube of a part's length, where
few different lines repeat: this budget is 2 s."""
_LOOKS_AT_A_LINE = 20
"""Budget of the search for anchors, per line: in the worst case, each round finds a single anchor."""


@dataclass(frozen=True, slots=True)
class Change:
    """`old[old_start:old_end]` became `new[new_start:new_end]`."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def changed_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Compare two texts by lines, and yield the differing parts in order.

    Lines that occur once in each text serve as anchors (patience diff), and the parts in between are compared alone.
    `replace_all` can make tens of thousands of changes, for which difflib alone takes minutes.
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
    """Return the largest set of lines unique in both texts and in the same order."""
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


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The diff of a file."""

    text: str
    lines_added: int
    lines_removed: int


def unified_diff(old_path: str | None, new_path: str | None, old: str, new: str) -> FileDiff:
    """Compare two texts; None as path stands for a missing file."""
    old_lines, new_lines = _lines(old), _lines(new)
    changes = list(changed_lines(old_lines, new_lines))
    text = f"--- {'a/' + old_path if old_path else '/dev/null'}\n+++ {'b/' + new_path if new_path else '/dev/null'}\n"
    if old_path and new_path and old_path != new_path:
        text = f"rename from {old_path}\nrename to {new_path}\n" + (text if changes else "")
    text += "".join(_hunk(old_lines, new_lines, group) for group in _groups(changes))
    return FileDiff(
        # Bytes that are not UTF-8 are surrogates in the text: JSON could carry them, a terminal could not.
        text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
        sum(change.new_end - change.new_start for change in changes),
        sum(change.old_end - change.old_start for change in changes),
    )


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _groups(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Group changes with touching context into a hunk."""
    group: list[Change] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Change]) -> str:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first.old_start)
    after = min(_CONTEXT, len(old) - last.old_end)
    old_range = _range(first.old_start - before, last.old_end + after)
    new_range = _range(first.new_start - before, last.new_end + after)
    pieces = [f"@@ -{old_range} +{new_range} @@\n"]
    at = first.old_start - before
    for change in group:
        pieces += _marked(" ", old[at : change.old_start])
        pieces += _marked("-", old[change.old_start : change.old_end])
        pieces += _marked("+", new[change.new_start : change.new_end])
        at = change.old_end
    pieces += _marked(" ", old[at : last.old_end + after])
    return "".join(pieces)


def _range(start: int, end: int) -> str:
    """Format a range of lines for a hunk's header; an empty range names the line before."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [mark + (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n") for line in lines]
