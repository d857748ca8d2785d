"""The texts of a report, with gaps for missing bytes, and a limit on the total size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Pieces = list[str | int]
"""The pieces of a text in order; a number is a count of missing bytes."""

MOST = 48 * 1024 * 1024
"""Bytes of all texts of a page. A browser shows a page of this size at once, and ten times the size only after half a
minute."""
_PER_PIECE = 16
"""Bytes of a piece besides the text."""


def with_gaps(text: str, gaps: Sequence[tuple[int, int]]) -> Pieces:
    """Return the pieces of a text with gaps.

    Args:
        text: The text without the missing parts.
        gaps: The place of each gap in `text`, in characters, and the number of missing bytes.
    """
    pieces: Pieces = []
    begin = 0
    for place, missing in sorted(gaps):
        end = min(max(place, begin), len(text))
        pieces += [text[begin:end], missing]
        begin = end
    return [piece for piece in [*pieces, text[begin:]] if piece != ""]


def gaps_of(line: Mapping[str, object], key: str) -> list[tuple[int, int]]:
    """Return the gaps of a line's text `key`, see docs/records.md."""
    cut, gaps = line.get("cut"), []
    if isinstance(cut, dict) and isinstance(cut.get(key), dict):
        gaps.append((cut[key].get("at"), cut[key].get("bytes")))
    if key == "output":
        gaps.append((line.get("omitted_at"), line.get("omitted_bytes")))
    return [(place, missing) for place, missing in gaps if _is_count(place) and _is_count(missing) and missing]


def missing_within(line: Mapping[str, object], key: str) -> int:
    """Return the number of missing bytes in the texts within `key`."""
    cut = line.get("cut")
    inner = [part for name, part in cut.items() if name.startswith(f"{key}.")] if isinstance(cut, dict) else []
    return sum(part["bytes"] for part in inner if isinstance(part, dict) and _is_count(part.get("bytes")))


def entries_missing(line: Mapping[str, object], key: str) -> int:
    """Return the number of missing entries of a list or an object, nested ones included."""
    cut = line.get("cut")
    parts = [part for name, part in cut.items() if f"{name}.".startswith(f"{key}.")] if isinstance(cut, dict) else []
    return sum(part["entries"] for part in parts if isinstance(part, dict) and _is_count(part.get("entries")))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


class Texts:
    """The texts of a page. Events refer to texts by number."""

    def __init__(self) -> None:
        self._all: list[Pieces] = []
        self._numbers: dict[tuple[str | int, ...], int] = {}

    def add(self, pieces: Pieces) -> int:
        """Add a text without duplicates, and return the number."""
        number = self._numbers.setdefault(tuple(pieces), len(self._all))
        if number == len(self._all):
            self._all.append(pieces)
        return number

    def bounded(self, most: int = MOST) -> list[Pieces]:
        """Return all texts. If the total exceeds `most` bytes, the longest texts lose their middle."""
        sizes = [_size(pieces) for pieces in self._all]
        if sum(sizes) <= most:
            return self._all
        limit = _fair_share(sizes, most)
        return [pieces if size <= limit else _cut(pieces, limit) for pieces, size in zip(self._all, sizes, strict=True)]


def _size(pieces: Pieces) -> int:
    return sum(_PER_PIECE + (len(piece.encode(errors="replace")) if isinstance(piece, str) else 0) for piece in pieces)


def _fair_share(sizes: Sequence[int], most: int) -> int:
    """Return the size limit per text with a total of `most` bytes."""
    left = most
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def _cut(pieces: Pieces, size: int) -> Pieces:
    """Cut the middle out of a text, and count the missing bytes."""
    data = [piece if isinstance(piece, int) else piece.encode(errors="replace") for piece in pieces]
    half = max(0, size - 3 * _PER_PIECE) // 2
    whole = b"".join(piece for piece in data if isinstance(piece, bytes))
    missing = sum(piece for piece in data if isinstance(piece, int)) + max(0, len(whole) - 2 * half)
    head = whole[:half].decode(errors="ignore")
    tail = whole[len(whole) - half :].decode(errors="ignore")
    return [piece for piece in (head, missing, tail) if piece != ""]
