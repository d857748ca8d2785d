"""docs/performance.md: what is measured stands between marks in it, and the charts beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.findings import Findings
from benchmarks.machine import machine_text
from benchmarks.marked_page import DOCS, MarkedPage
from benchmarks.table import NONE, Row, beside_text, ratio_text, seconds_text

PERFORMANCE = MarkedPage("performance.md", "performance")
_PEERS = ("hermes-agent", "SWE-ReX", "inspect_ai", "openai-agents")


def write(findings: Findings, docs: Path = DOCS) -> None:
    """Write the page anew, see `MarkedPage.write`."""
    PERFORMANCE.write(_parts(findings), findings.charts, findings.to_json(), docs)


def read(docs: Path = DOCS) -> Findings:
    """Return what the page says now."""
    return Findings.of_json(PERFORMANCE.numbers(docs))


def written(text: str, findings: Findings) -> str:
    """Return the page with what was measured between its marks, see `MarkedPage.written`."""
    return PERFORMANCE.written(text, _parts(findings), findings.charts)


def _parts(findings: Findings) -> dict[str, str]:
    goals = [row for row in findings.rows if row.ours is None or row.goal is not None or row.limit is not None]
    more = [row for row in findings.rows if row not in goals]
    return {
        "machine": _measured_on(findings),
        "goals": _costs(goals),
        "more": _costs(more),
        "beside": _beside(findings),
    }


def _measured_on(findings: Findings) -> str:
    return (
        f"Measured on {findings.date}: {machine_text(findings.machine)}. Before it began, {findings.load:.1f} "
        f"processes wanted a core; it took {findings.seconds / 60:.0f} minutes."
    )


def _costs(rows: Sequence[Row]) -> str:
    """Return tables of what things cost, one for each kind of raw cost."""
    kinds = dict.fromkeys(row.raw_is for row in rows if row.ours)
    tables = [_table_of_kind(kind, [row for row in rows if row.ours and row.raw_is == kind]) for kind in kinds]
    failed = [f"- {_code(row.what)}: {row.note}" for row in rows if row.ours is None]
    return "\n\n".join([*tables, *(["\n".join(failed)] if failed else [])])


def _table_of_kind(kind: str, rows: Sequence[Row]) -> str:
    heads = [
        "raw",
        "ours",
        "p10 to p90",
        "ours/raw",
        *(["goal"] if any(row.goal_text() != NONE for row in rows) else []),
    ]
    lines = [f"Raw: {kind}." if kind else "There is no raw cost.", ""]
    lines += [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    for row in rows:
        reached = {True: ", reached", False: ", **missed**", None: ""}[row.reached]
        cells = (
            _code(row.what),
            seconds_text(row.raw.median if row.raw else None),
            seconds_text(row.ours.median if row.ours else None),
            _spread(row),
            ratio_text(row.ratio),
            f"{row.goal_text()}{reached}",
        )
        lines.append(_unbroken(cells[: 1 + len(heads)]))
    notes = [f"- {_code(row.what)}: {row.note}" for row in rows if row.note]
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def _spread(row: Row) -> str:
    if row.ours is None or row.ours.count == 1:
        return NONE
    low, high = seconds_text(row.ours.low), seconds_text(row.ours.high)
    unit = high.rpartition(" ")[2]
    return f"{low.removesuffix(f' {unit}')} to {high}"


def _unbroken(cells: Sequence[str]) -> str:
    """Return a line of a table in which a number stays with its unit, and both ends of a span together."""
    first, *numbers = cells
    kept = (re.sub(r"(?<=\d) (?=m?s\b|to\b)|(?<=to) (?=\d)", "&nbsp;", cell) for cell in numbers)
    return f"| {' | '.join([first, *kept])} |"


def _beside(findings: Findings) -> str:
    lines = [
        f"| | this package | {' | '.join(_PEERS)} | the usual way |",
        "|---|---:|" + "---:|" * len(_PEERS) + "---|",
    ]
    rows = [row for row in findings.rows if row.beside and row.ours]
    for row in rows:
        peers = {peer: [name for name in row.beside if name.startswith(peer)] for peer in _PEERS}
        plain = [name for name in row.beside if not name.startswith(_PEERS)]
        cells = [
            _code(row.what),
            seconds_text(row.ours.median if row.ours else None),
            *("<br>".join(beside_text(row, name) for name in names) or NONE for names in peers.values()),
            "<br>".join(f"{name} {beside_text(row, name)}" for name in plain) or NONE,
        ]
        lines.append(_unbroken(cells))
    said = list(_missing(findings))
    return "\n".join([*lines, *(["", "Not measured:", "", *said] if said else [])])


def _missing(findings: Findings) -> Iterator[str]:
    """Say what could not be measured, and why."""
    for row in findings.rows:
        for name, why in row.missing.items():
            yield f"- {name}, {_code(row.what)}: {' '.join(why.split())}"


def _code(what: str) -> str:
    """Return a row's name with what is called in it as code."""
    return re.sub(r'([\w.]+\("[^|]*?"\)|\w*execute_\w+|(?:put|get)_file)', r"`\1`", what, count=1)
