"""Reads the record of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class RecordedSpan:
    """A span of a record: its begin and end events as one mapping."""

    begin: Event
    end: Event

    def __getitem__(self, key: str) -> Any:
        return self.end[key] if key in self.end else self.begin[key]

    def get(self, key: str) -> Any:
        """Return a value, or None."""
        return self.end.get(key, self.begin.get(key))


class RunRecord:
    """The present content of a record file."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.events: list[Event] = [json.loads(line) for line in self.text.splitlines()]
        ends = {event["id"]: event for event in self.of("end")}
        self.all = [RecordedSpan(event, ends.get(event["id"], {})) for event in self.of("begin")]

    def of(self, event: str) -> list[Event]:
        """Return the events of one kind."""
        return [each for each in self.events if each["event"] == event]

    def kind(self, kind: str) -> list[RecordedSpan]:
        """Return the spans of a kind, in the order of their begin."""
        return [each for each in self.all if each.begin["kind"] == kind]

    def one(self, kind: str) -> RecordedSpan:
        """Return the only span of a kind."""
        (found,) = self.kind(kind)
        return found

    def last(self, kind: str) -> RecordedSpan:
        """Return the last begun span of a kind."""
        return self.kind(kind)[-1]

    def ways_down(self) -> list[list[str]]:
        """Return the kinds from the outermost span down, for each span."""
        known = {each.begin["id"]: each.begin for each in self.all}

        def way(event: Event) -> list[str]:
            return [*(way(known[event["parent"]]) if event["parent"] else []), event["kind"]]

        return [way(each.begin) for each in self.all]
