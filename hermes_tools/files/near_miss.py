"""Which of many texts is most like the one that was meant, in a bounded time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from difflib import SequenceMatcher

from hermes_tools.interruption import raise_if_interrupted

_COMPARED_CHARACTERS = 100
"""The time difflib takes grows with the cube of the length, where few different characters come again and again."""
_COMPARED_FULLY = 30


def near_misses(wanted: str, candidates: Iterable[str], most: int, cutoff: float) -> list[str]:
    """Return the candidates most like `wanted`, the best first: `difflib.get_close_matches`, but for its cost.

    Only the beginnings of long texts are compared, and the full comparison is for those that have most characters
    in common with `wanted`, in whatever order.

    Args:
        wanted: What was meant.
        candidates: What there is.
        most: How many to return.
        cutoff: How alike they must be at least, from 0 to 1.
    """
    matcher = SequenceMatcher(b=wanted[:_COMPARED_CHARACTERS])
    likely = []
    for candidate in candidates:
        raise_if_interrupted()
        matcher.set_seq1(candidate[:_COMPARED_CHARACTERS])
        if matcher.real_quick_ratio() >= cutoff and (bound := matcher.quick_ratio()) >= cutoff:
            likely.append((bound, candidate))
    near = []
    for _, candidate in heapq.nlargest(_COMPARED_FULLY, likely):
        matcher.set_seq1(candidate[:_COMPARED_CHARACTERS])
        if (ratio := matcher.ratio()) >= cutoff:
            near.append((ratio, candidate))
    return [candidate for _, candidate in heapq.nlargest(most, near)]
