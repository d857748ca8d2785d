"""Making values fit for a record: without secrets, and no longer than what is kept of one text."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

from environments.observation.observation import Redacts
from environments.output import CapturedText

MOST_BYTES = 64 * 1024
"""Bytes of UTF-8 that are kept of one text: half of them from its beginning, half from its end."""
MOST_IN_ALL = 4 * MOST_BYTES
"""Bytes that are kept of all texts of one value, such as the arguments of a tool. Those behind lose all."""
MOST_ENTRIES = 1000
"""Entries that are kept of a list or an object."""
MOST_ENTRIES_IN_ALL = 5000
"""Entries that are kept of all lists and objects of one value."""
MOST_CUTS = 100
"""Places of one event of which it is said that something was cut there."""
MOST_BITS = 256
"""Bits of a whole number that is kept as one. Python itself writes none that is much longer."""
MOST_LEVELS = 50
"""How deep lists and objects in each other are kept."""
LONGEST_NAME = 120
"""Characters of what a thing is called."""


class Tapped(NamedTuple):
    """An output that was cut by who took it for the record, and by nobody else."""

    captured: CapturedText


class Fitting:
    """Makes the values of one event fit, and notes what was cut.

    Args:
        redactor: Takes out the secrets.
    """

    def __init__(self, redactor: Redacts) -> None:
        self._redactor = redactor
        self.cut: dict[str, dict[str, int]] = {}
        """What was left out, by the key of the text."""
        self.gaps: dict[str, int] = {}
        """Where in an output something is missing; its length, if nothing is."""
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL

    def value(self, key: str, value: object) -> object:
        """Return the value of a key."""
        if isinstance(value, Tapped):
            return self._tapped(key, value.captured)
        if isinstance(value, CapturedText):
            return self._captured(key, value)
        self._room, self._entries = MOST_IN_ALL, MOST_ENTRIES_IN_ALL
        return self._plain(key, value, 0)

    def name(self, text: str) -> str:
        """Return what a thing is called: the first line of a text, without what can't be seen."""
        shown = self._redactor.text(_beginning(text, MOST_BYTES // 2), cut_behind=len(text) > MOST_BYTES // 2)
        line = next((line for line in shown.splitlines() if line.strip()), "").strip()
        line = "".join(sign if sign.isprintable() else " " for sign in line)
        return line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + "…"

    def _captured(self, key: str, captured: CapturedText) -> str:
        text, gap = captured.text, captured.omitted_bytes
        if not gap and byte_size(text) <= MOST_BYTES:
            text = self._redactor.text(text)
            self.gaps[key] = len(text)
            return text
        before, behind = (text[: captured.omitted_at], text[captured.omitted_at :]) if gap else (text, text)
        head, tail = _beginning(before, MOST_BYTES // 2), _end(behind, MOST_BYTES // 2)
        missing = byte_size(text) - byte_size(head) - byte_size(tail)
        head, tail = self._redactor.text(head, cut_behind=True), self._redactor.text(tail, cut_before=True)
        if missing:
            self._note(key, bytes=missing, at=len(head))
        self.gaps[key] = len(head)
        return head + tail

    def _tapped(self, key: str, captured: CapturedText) -> str:
        text = self._captured(key, captured)
        if captured.omitted_bytes:
            already = self.cut.get(key, {"bytes": 0})["bytes"]
            self._note(key, bytes=captured.omitted_bytes + already, at=self.gaps[key])
        return text

    def _note(self, key: str, **what: int) -> None:
        if len(self.cut) < MOST_CUTS or key in self.cut:
            self.cut[key] = what

    def _plain(self, key: str, value: object, level: int) -> object:
        if value is None or isinstance(value, int | float):
            return _number(value)
        if level > MOST_LEVELS:
            self._note(key, entries=1)
            return None
        if isinstance(value, dict):
            return self._mapping(key, value, level)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(key, list(value), level)
        return self._text(key, value if isinstance(value, str) else _shown(value))

    def _text(self, key: str, text: str) -> str:
        size = byte_size(text)
        if size > self._room and size <= MOST_BYTES:
            self._note(key, bytes=size, at=0)
            return ""
        fitting = self._captured(key, CapturedText(text, 0, len(text)))
        self._room = max(0, self._room - byte_size(fitting))
        return fitting

    def _mapping(self, key: str, value: dict[object, object], level: int) -> dict[str, object]:
        kept: dict[str, object] = {}
        for name, item in itertools.islice(value.items(), self._most(key, len(value))):
            shown = self.name(str(name))
            kept[shown] = self._plain(f"{key}.{shown}", item, level + 1)
        return kept

    def _list(self, key: str, value: list[object], level: int) -> list[object]:
        kept = value[: self._most(key, len(value))]
        return [self._plain(f"{key}.{place}", item, level + 1) for place, item in enumerate(kept)]

    def _most(self, key: str, size: int) -> int:
        """Return how many of so many entries are kept."""
        most = min(size, MOST_ENTRIES, self._entries)
        self._entries -= most
        if size > most:
            self._note(key, entries=size - most)
        return most


def _number(value: float | None) -> object:
    """Return a number, a truth value or nothing, or a text in place of what JSON can't write."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def byte_size(text: str) -> int:
    """Return the size of a text in UTF-8, where what is no character counts as one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _beginning(text: str, size: int) -> str:
    """Return so many bytes of the beginning of a text, or a little less, so that no character is cut."""
    head = text[:size]
    return head if head.isascii() else head[: len(head.encode("utf-8", "replace")[:size].decode("utf-8", "ignore"))]


def _end(text: str, size: int) -> str:
    """Return the same of its end."""
    return _beginning(text[: -size - 1 : -1], size)[::-1]


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return type(value).__name__
