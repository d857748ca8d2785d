"""`python -m benchmarks [NAME...]`: measure all and write docs/performance.md, or measure some and print them."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from benchmarks import page
from benchmarks.chart import Chart
from benchmarks.findings import Findings
from benchmarks.machine import machine
from benchmarks.table import NONE, Row, table_of

SUBJECTS = (
    "startup",
    "local",
    "output",
    "many",
    "docker",
    "lifecycle",
    "ssh",
    "singularity",
    "over_ssh",
    "modal",
    "daytona",
    "growth.environments",
    "growth.results",
    "growth.distance",
)
PAGE = "page"
"""In place of a subject: write the page from the last measurements."""
NARROWEST = 150
"""The smallest width of the table, in columns, also outside of a terminal."""


def measure_subject(subject: str) -> tuple[list[Row], list[Chart]]:
    """Measure one subject. After a failure, earlier rows are kept and a last row has the reason."""
    rows: list[Row] = []
    charts: list[Chart] = []
    try:
        module = importlib.import_module(f"benchmarks.{subject}")
        if hasattr(module, "rows"):
            rows.extend(module.rows())
        if hasattr(module, "charts"):
            charts.extend(module.charts())
    except Exception as error:  # a failure must not cost the other subjects' measurements
        rows.append(
            Row(what=subject, note=f"not measured: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        )
    return rows, charts


def measure_all(subjects: Sequence[str]) -> Findings:
    """Measure some subjects, one after the other."""
    began, load, progress = time.monotonic(), os.getloadavg()[0], Console(stderr=True)
    rows: list[Row] = []
    charts: list[Chart] = []
    with progress.status("") as status:
        for subject in subjects:
            status.update(f"measuring {subject}")
            more_rows, more_charts = measure_subject(subject)
            rows += more_rows
            charts += more_charts
    return Findings(
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=machine(),
        load=round(load, 2),
        seconds=round(time.monotonic() - began),
        rows=rows,
        charts=charts,
    )


def chart_table(chart: Chart) -> Table:
    """Return a chart as a table for the terminal."""
    table = Table(title=f"{chart.title}: {chart.up}", caption=chart.note)
    table.add_column(chart.across)
    for line in chart.lines:
        table.add_column(line.name, justify="right")
    for at in sorted({point.at for line in chart.lines for point in line.points}):
        values = [{point.at: _number(point.value) for point in line.points}.get(at, NONE) for line in chart.lines]
        table.add_row(f"{at:,.0f}", *values)
    return table


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Measure the subjects of the command line, or all."""
    asked = sys.argv[1:]
    if asked == [PAGE]:
        page.write(page.read())
        return
    named = [subject for subject in SUBJECTS if any(subject == one or subject.startswith(f"{one}.") for one in asked)]
    known = {*SUBJECTS, *(subject.partition(".")[0] for subject in SUBJECTS)}
    if unknown := [one for one in asked if one not in known]:
        sys.exit(f"there is no benchmark {', '.join(unknown)}; there are: {', '.join([*SUBJECTS, PAGE])}")
    findings = measure_all(named if asked else SUBJECTS)
    shown = Console(width=max(Console(stderr=True).width, NARROWEST))
    shown.print(table_of(findings.rows))
    for chart in findings.charts:
        shown.print(chart_table(chart))
    if not asked:
        page.write(findings)


if __name__ == "__main__":
    main()
