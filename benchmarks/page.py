"""docs/performance.md: what is measured stands between marks in it, and the charts beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.chart import Chart, svg_of
from benchmarks.findings import Findings
from benchmarks.table import NONE, Row, beside_text, ratio_text, seconds_text

DOCS = Path(__file__).parents[1] / "docs"
PAGE, FOLDER, DATA = "performance.md", "performance", "measured.json"
_PART = re.compile(r"(<!-- measured: ([a-z -]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PEERS = ("hermes-agent", "SWE-ReX", "inspect_ai")


def write(findings: Findings, docs: Path = DOCS) -> None:
    """Write the page anew, with its charts and what they are made of.

    Args:
        findings: What it is to say.
        docs: Where the page is.

    Raises:
        MissingExtraError: What draws the charts is not installed.
    """
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    for chart in findings.charts:
        (folder / f"{chart.name}.svg").write_text(svg_of(chart))
    (folder / DATA).write_text(findings.to_json())
    page = docs / PAGE
    page.write_text(written(page.read_text(), findings))


def read(docs: Path = DOCS) -> Findings:
    """Return what the page says now."""
    return Findings.of_json((docs / FOLDER / DATA).read_text())


def written(text: str, findings: Findings) -> str:
    """Return the page with what was measured between its marks. A part that was not measured says so.

    Args:
        text: The page as it is.
        findings: What it is to say.
    """
    goals = [row for row in findings.rows if row.ours is None or row.goal is not None or row.limit is not None]
    more = [row for row in findings.rows if row not in goals]
    parts = {
        "machine": _measured_on(findings),
        "goals": _costs(goals),
        "more": _costs(more),
        "beside": _beside(findings),
    }
    parts |= {f"chart {chart.name}": picture(chart, FOLDER) for chart in findings.charts}
    return filled(text, parts)


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with something else between its marks.

    Args:
        text: The page as it is.
        parts: What belongs there, by the name in the mark. One that is missing was not measured.
    """

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{parts.get(found[2], 'Not measured.')}\n\n{found[3]}"

    return _PART.sub(part, text)


def machine_text(machine: Mapping[str, str]) -> str:
    """Return for people what kind of machine this is."""
    return ", ".join(
        f"{value} {name}" if name in {"cores", "memory"} else value if name == "kernel" else f"{name} {value}"
        for name, value in machine.items()
    )


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


def picture(chart: Chart, folder: str) -> str:
    """Return what shows a chart that lies in a folder beside the page."""
    note = f"\n\n{chart.note}" if chart.note else ""
    return f"![{chart.says}]({folder}/{chart.name}.svg)" + note


def _code(what: str) -> str:
    """Return a row's name with what is called in it as code."""
    return re.sub(r'(\w+\("[^|]*?"\)|\w*execute_\w+|put_file)', r"`\1`", what, count=1)
