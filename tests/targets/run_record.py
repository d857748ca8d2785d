"""A record of a run, to look at what is in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass(frozen=True)
class RecordedSpan:
    """One thing, with its two events as one."""

    begin: Event
    end: Event

    def __getitem__(self, key: str) -> Any:
        return self.end[key] if key in self.end else self.begin[key]

    def get(self, key: str) -> Any:
        """Return a value; None if there is none."""
        return self.end.get(key, self.begin.get(key))


class RunRecord:
    """What a file holds now."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.events: list[Event] = [json.loads(line) for line in self.text.splitlines()]
        ends = {event["id"]: event for event in self.of("end")}
        self.all = [RecordedSpan(event, ends.get(event["id"], {})) for event in self.of("begin")]

    def of(self, event: str) -> list[Event]:
        """Return the events of one kind."""
        return [each for each in self.events if each["event"] == event]

    def kind(self, kind: str) -> list[RecordedSpan]:
        """Return the things of one kind, in the order in which they began."""
        return [each for each in self.all if each.begin["kind"] == kind]

    def one(self, kind: str) -> RecordedSpan:
        """Return the only thing of a kind."""
        (found,) = self.kind(kind)
        return found

    def last(self, kind: str) -> RecordedSpan:
        """Return the last thing of a kind that began."""
        return self.kind(kind)[-1]

    def ways_down(self) -> list[list[str]]:
        """Return for each thing the kinds from the outermost to its own."""
        known = {each.begin["id"]: each.begin for each in self.all}

        def way(event: Event) -> list[str]:
            return [*(way(known[event["parent"]]) if event["parent"] else []), event["kind"]]

        return [way(each.begin) for each in self.all]
