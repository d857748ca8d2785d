"""The parser of a record: reads lines, and joins them into events.

Damaged and unknown lines are skipped.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from environments.errors import TerminalError

VERSION = 1
"""The latest supported version of the format."""
LONGEST = 64 * 1024 * 1024
"""Bytes of the longest line. The limit keeps a file without line breaks out of memory."""

Line = dict[str, object]


@dataclass(frozen=True, slots=True)
class Damage:
    """A skipped line, by number, with the reason."""

    number: int
    what: str


def read_lines(file: BinaryIO) -> Iterator[Line | Damage]:
    """Yield the lines of a record, with `Damage` for an unreadable line. Skips empty lines."""
    for number in itertools.count(1):
        line = file.readline(LONGEST)
        if not line:
            return
        if len(line) == LONGEST and not line.endswith(b"\n"):
            _skip_to_its_end(file)
            yield Damage(number, f"longer than {LONGEST // 1024**2} MiB")
        elif line.strip():
            yield _parsed(number, line)


def _skip_to_its_end(file: BinaryIO) -> None:
    while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
        pass


def _parsed(number: int, line: bytes) -> Line | Damage:
    try:
        value = json.loads(line.decode("utf-8", errors="replace"), parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        torn = not line.endswith(b"\n")
        return Damage(number, "torn: the writer was ended meanwhile" if torn else "not JSON")
    return value if isinstance(value, dict) else Damage(number, "not an object")


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A process with lines in the record."""

    id: str
    time: float
    about: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Note:
    """A note of progress. `event` is the number of the event; None for a missing event."""

    run: int
    time: float
    event: int | None
    about: Mapping[str, object]


@dataclass(slots=True)
class RecordedEvent:
    """An event with the first line, `began`, and the last line, `ended`. Either may be missing."""

    run: int
    parent: int | None
    time: float
    began: Line
    ended: Line | None = None

    @property
    def seconds(self) -> float | None:
        """The duration in seconds; None for an event without an end."""
        if self.ended is None:
            return None
        seconds = number(self.ended.get("seconds"))
        later = number(self.ended.get("time"))
        if seconds is None and later is not None:
            seconds = later - self.time
        return max(0.0, seconds or 0.0)


@dataclass(slots=True)
class JoinedRecord:
    """A whole record. Events are in the order of their first lines, a parent before the children."""

    runs: list[RecordedRun] = field(default_factory=list)
    events: list[RecordedEvent] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    last: dict[int, float] = field(default_factory=dict)
    """The time of the last line of each run."""


_LAST_TIME = 8e12
"""Seconds from 1970 to the largest date of a browser."""


def number(value: object) -> float | None:
    """Return a finite number, and None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


class _Joiner:
    def __init__(self) -> None:
        self.record = JoinedRecord()
        self._runs: dict[str, int] = {}
        self._events: dict[str, int] = {}

    def add(self, line: Line) -> None:
        time = number(line.get("time"))
        time = None if time is None or abs(time) > _LAST_TIME else time
        if time is None or line.get("event") not in ("run", "begin", "end", "note", "network_refused"):
            return
        run = self._run(line, time)
        self.record.last[run] = max(time, self.record.last.get(run, time))
        match line["event"]:
            case "begin":
                self._begin(line, run, time)
            case "end":
                self._end(line, run, time)
            case "note":
                event = self._events.get(str(line.get("id")))
                self.record.notes.append(Note(run, time, event, line))
            case "network_refused":
                self._refused(line, run, time)

    def _run(self, line: Line, time: float) -> int:
        """Return the number of a line's run. A missing first line of the run is allowed."""
        name = str(line.get("run"))
        known = self._runs.get(name)
        if line["event"] == "run":
            _check_version(line)
        if known is None:
            known = self._runs[name] = len(self.record.runs)
            self.record.runs.append(RecordedRun(name, time, line if line["event"] == "run" else {}))
        return known

    def _begin(self, line: Line, run: int, time: float) -> None:
        parent = self._events.get(str(line.get("parent")))
        self._events[str(line.get("id"))] = len(self.record.events)
        self.record.events.append(RecordedEvent(run, parent, time, line))

    def _refused(self, line: Line, run: int, time: float) -> None:
        """Add a refusal of the network as an event without duration."""
        host, port = line.get("host"), line.get("port")
        named = {"kind": line["event"], "name": ":".join(str(part) for part in (host, port) if part is not None)}
        parent = self._events.get(str(line.get("id")))
        ended: Line = {"seconds": 0.0, "status": "denied"}
        self.record.events.append(RecordedEvent(run, parent, time, {**line, **named}, ended))

    def _end(self, line: Line, run: int, time: float) -> None:
        known = self._events.get(str(line.get("id")))
        if known is not None and self.record.events[known].ended is None:
            self.record.events[known].ended = line
        elif known is None:  # the first line is missing
            seconds = max(0.0, number(line.get("seconds")) or 0.0)
            self._events[str(line.get("id"))] = len(self.record.events)
            self.record.events.append(RecordedEvent(run, None, time - seconds, {"kind": line.get("kind")}, line))


def _check_version(line: Line) -> None:
    version = line.get("version")
    if isinstance(version, int) and version > VERSION:
        raise TerminalError(
            f"the record has version {version}, and this hermes-env supports version {VERSION}: make the report with "
            "the hermes-env that wrote the record, or a later one"
        )


def _without_damages(lines: Iterable[Line | Damage], damages: list[Damage]) -> Iterator[Line]:
    for line in lines:
        if isinstance(line, Damage):
            damages.append(line)
        else:
            yield line


def join(lines: Iterable[Line | Damage]) -> JoinedRecord:
    """Join the lines of a record.

    Raises:
        TerminalError: No line is from a record, or the record has a later version.
    """
    joiner = _Joiner()
    for line in _without_damages(lines, joiner.record.damages):
        joiner.add(line)
    if not joiner.record.runs:
        raise TerminalError("there is no record in it: `hermes-env run --record FILE` writes one")
    return joiner.record
