"""Live search for patterns in the lines of an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from environments.model_view import PlainText
from environments.output import LiveText

MAX_PATTERNS = 16
LONGEST_PATTERN = 512
"""Characters of a pattern."""
LONGEST_LINE = 4096
"""Limit of an incomplete line, in bytes, searched again with the next piece."""
_MAX_MEMORY = 1 << 20
"""Limit of a compiled pattern, in bytes; a larger pattern is searched for as plain text."""


class _Found(Protocol):
    def start(self) -> int: ...


_Search = Callable[[bytes, int], _Found | None]
OnMatch = Callable[[str, str, int], object]


class Watch:
    """Searches each line for texts and regular expressions, in linear time, without terminal controls.

    An incomplete line, such as a prompt, is searched too, and counts once.

    Args:
        patterns: Texts, or regular expressions (RE2). A line matches by either meaning.
        on_match: Called for each pattern with a match in a piece of output, with the pattern, the first matching line
            and the number of matching lines.
        is_full: True for a pattern to leave out for now.

    Raises:
        ValueError: There are too many patterns, or a pattern is too long, empty, or matches the empty text.
    """

    def __init__(
        self, patterns: Sequence[str], on_match: OnMatch, is_full: Callable[[str], bool] = lambda pattern: False
    ) -> None:
        _check(patterns)
        self._searches = {pattern: _compiled(pattern) for pattern in patterns}
        self._on_match = on_match
        self._is_full = is_full
        self._text = LiveText()
        self._plain = PlainText()
        self._line = b""
        self._already_matched: set[str] = set()
        """The patterns already matched by the incomplete line."""

    def feed(self, data: bytes) -> None:
        """Search the next bytes of the output."""
        block = self._line + self._plain.feed(self._text.feed(data)).encode("utf-8", "replace")
        begin = block.rfind(b"\n") + 1
        matched_now: set[str] = set()
        for pattern, search in self._searches.items():
            if self._is_full(pattern):
                continue
            known = pattern in self._already_matched
            first, count, is_incomplete = _matches(search, block, (block.find(b"\n") + 1 or len(block)) if known else 0)
            if is_incomplete or (known and not begin):
                matched_now.add(pattern)
            if count:
                self._on_match(pattern, first.decode("utf-8", "replace"), count)
        self._already_matched = matched_now
        self._line = block[max(begin, len(block) - LONGEST_LINE) :]


def _check(patterns: Sequence[str]) -> None:
    if len(patterns) > MAX_PATTERNS:
        raise ValueError(f"watch has {len(patterns)} patterns; give at most {MAX_PATTERNS}")
    for pattern in patterns:
        if not pattern or len(pattern) > LONGEST_PATTERN or "\n" in pattern:
            raise ValueError(f"watch: {pattern[:40]!r} is not one line of 1 to {LONGEST_PATTERN} characters")


def _matches(search: _Search, block: bytes, place: int) -> tuple[bytes, int, bool]:
    """Return the first matching line, the number of matching lines, and True if the last of them is incomplete."""
    first, count = b"", 0
    while place < len(block) and (found := search(block, place)):
        begin = max(place, block.rfind(b"\n", 0, found.start()) + 1)
        end = block.find(b"\n", found.start())
        if not count:
            first = block[begin : end if end >= 0 else len(block)]
        count += 1
        if end < 0:
            return first, count, True
        place = end + 1
    return first, count, False


def _compiled(pattern: str) -> _Search:
    # Imported with the first pattern: most commands have none.
    import re2

    options = re2.Options()
    options.never_capture = True
    options.never_nl = True  # no match spans lines
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    plain = re2.escape(pattern)
    try:
        re2.compile(pattern, options)  # by itself: the text around it must not complete it
        compiled = re2.compile(f"(?m:{plain}|(?:{pattern}))", options)
    except re2.error:  # plain text only
        compiled = re2.compile(plain, options)
    if compiled.search(b""):
        raise ValueError(f"watch: {pattern!r} matches the empty text")
    search: _Search = compiled.search
    return search
