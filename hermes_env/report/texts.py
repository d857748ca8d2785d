"""The texts of a record, with what is missing of each in its place, and all of them bounded together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pieces = list[str | int]
"""A text as its pieces in their order; a number stands for so many missing bytes."""

MOST = 48 * 1024 * 1024
"""Bytes that the texts of a page take together. A browser shows a page of this size at once, and one of ten times it
after half a minute."""
_PER_PIECE = 16
"""Bytes that a piece takes at least, for what stands around it."""


def with_gaps(text: str, gaps: Sequence[tuple[int, int]]) -> Pieces:
    """Return a text with its gaps in their places.

    Args:
        text: What is there of it.
        gaps: The place of each in `text`, in characters, and how many bytes are missing there.
    """
    pieces: Pieces = []
    begin = 0
    for place, missing in sorted(gaps):
        end = min(max(place, begin), len(text))
        pieces += [text[begin:end], missing]
        begin = end
    return [piece for piece in [*pieces, text[begin:]] if piece != ""]


def gaps_of(line: Mapping[str, object], key: str) -> list[tuple[int, int]]:
    """Return what a line of a record says to be missing from its text `key`: see docs/records.md."""
    cut, gaps = line.get("cut"), []
    if isinstance(cut, dict) and isinstance(cut.get(key), dict):
        gaps.append((cut[key].get("at"), cut[key].get("bytes")))
    if key == "output":
        gaps.append((line.get("omitted_at"), line.get("omitted_bytes")))
    return [(place, missing) for place, missing in gaps if _is_count(place) and _is_count(missing) and missing]


def missing_within(line: Mapping[str, object], key: str) -> int:
    """Return how many bytes are missing of the texts within `key`, in places that JSON has no room to show."""
    cut = line.get("cut")
    inner = [part for name, part in cut.items() if name.startswith(f"{key}.")] if isinstance(cut, dict) else []
    return sum(part["bytes"] for part in inner if isinstance(part, dict) and _is_count(part.get("bytes")))


def entries_missing(line: Mapping[str, object], key: str) -> int:
    """Return how many entries are missing of a list or an object and of those within it."""
    cut = line.get("cut")
    parts = [part for name, part in cut.items() if f"{name}.".startswith(f"{key}.")] if isinstance(cut, dict) else []
    return sum(part["entries"] for part in parts if isinstance(part, dict) and _is_count(part.get("entries")))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Texts:
    """The texts of a page. An event refers to one by its number."""

    def __init__(self) -> None:
        self._all: list[Pieces] = []
        self._numbers: dict[tuple[str | int, ...], int] = {}

    def add(self, pieces: Pieces) -> int:
        """Keep a text, once however often it comes, and return its number."""
        number = self._numbers.setdefault(tuple(pieces), len(self._all))
        if number == len(self._all):
            self._all.append(pieces)
        return number

    def bounded(self, most: int = MOST) -> list[Pieces]:
        """Return all texts, the longest of them cut in their middle where together they are more than `most` bytes."""
        sizes = [_size(pieces) for pieces in self._all]
        if sum(sizes) <= most:
            return self._all
        limit = _fair_share(sizes, most)
        return [pieces if size <= limit else _cut(pieces, limit) for pieces, size in zip(self._all, sizes, strict=True)]


def _size(pieces: Pieces) -> int:
    return sum(_PER_PIECE + (len(piece.encode(errors="replace")) if isinstance(piece, str) else 0) for piece in pieces)


def _fair_share(sizes: Sequence[int], most: int) -> int:
    """Return the size to which the larger ones have to be cut, so that all of them fit into `most`."""
    left = most
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def _cut(pieces: Pieces, size: int) -> Pieces:
    """Keep the beginning and the end of a text, and count what is missing between them."""
    data = [piece if isinstance(piece, int) else piece.encode(errors="replace") for piece in pieces]
    half = max(0, size - 3 * _PER_PIECE) // 2
    whole = b"".join(piece for piece in data if isinstance(piece, bytes))
    missing = sum(piece for piece in data if isinstance(piece, int)) + max(0, len(whole) - 2 * half)
    head = whole[:half].decode(errors="ignore")
    tail = whole[len(whole) - half :].decode(errors="ignore")
    return [piece for piece in (head, missing, tail) if piece != ""]
