"""The findings of a run, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from benchmarks.chart import Chart, Line, Point
from benchmarks.measure import Times
from benchmarks.table import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Rows and charts, with the date and the machine of their measurement."""

    date: str
    machine: Mapping[str, str]
    load: float
    """The load average of the minute before. Above 0, other processes were at work."""
    seconds: float
    """Seconds of the whole run."""
    rows: Sequence[Row]
    charts: Sequence[Chart]

    def to_json(self) -> str:
        """Return the findings as JSON, with times in seconds."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Return the findings from the JSON of `to_json`."""
        kept = json.loads(text)
        rows = [_row(row) for row in kept.pop("rows")]
        charts = [_chart(chart) for chart in kept.pop("charts")]
        return cls(rows=rows, charts=charts, **kept)


def _row(kept: dict[str, Any]) -> Row:
    times = {name: Times(**kept[name]) if kept[name] else None for name in ("raw", "ours")}
    beside = {name: Times(**each) for name, each in kept["beside"].items()}
    return Row(**{**kept, **times, "beside": beside})


def _chart(kept: dict[str, Any]) -> Chart:
    lines = [Line(line["name"], [Point(**point) for point in line["points"]]) for line in kept["lines"]]
    ticks = [(at, text) for at, text in kept["ticks"]]
    return Chart(**{**kept, "lines": lines, "ticks": ticks})
