"""docs/performance.md: what is measured stands between marks in it, and the charts beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.chart import Chart, svg_of
from benchmarks.findings import Findings
from benchmarks.table import Row, beside_text, ratio_text, seconds_text

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
    parts = {"machine": _machine(findings), "goals": _costs(goals), "more": _costs(more), "beside": _beside(findings)}
    parts |= {f"chart {chart.name}": _picture(chart) for chart in findings.charts}

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{parts.get(found[2], 'Not measured.')}\n\n{found[3]}"

    return _PART.sub(part, text)


def _machine(findings: Findings) -> str:
    kinds = ", ".join(
        f"{value} {name}" if name in {"cores", "memory"} else value if name == "kernel" else f"{name} {value}"
        for name, value in findings.machine.items()
    )
    return (
        f"Measured on {findings.date}: {kinds}. Before it began, {findings.load:.1f} processes wanted a core; "
        f"it took {findings.seconds / 60:.0f} minutes."
    )


def _costs(rows: Sequence[Row]) -> str:
    lines = [
        "| | raw | ours | p10 to p90 | ours/raw | goal | raw is |",
        "|---|" + "---:|" * 5 + "---|",
    ]
    for row in rows:
        if row.ours is None:
            lines.append(f"| {_code(row.what)} | - | - | - | - | {row.goal_text()} | {row.note} |")
            continue
        spread = f"{seconds_text(row.ours.low)} to {seconds_text(row.ours.high)}" if row.ours.count > 1 else "-"
        reached = {True: ", reached", False: ", **missed**", None: ""}[row.reached]
        cells = (
            _code(row.what),
            seconds_text(row.raw.median if row.raw else None),
            seconds_text(row.ours.median),
            spread,
            ratio_text(row.ratio),
            f"{row.goal_text()}{reached}",
            "; ".join(each for each in (row.raw_is, row.note) if each),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(findings: Findings) -> str:
    lines = [
        f"| | this package | {' | '.join(['the usual way', *_PEERS])} |",
        "|---|---:|" + "---:|" * (1 + len(_PEERS)),
    ]
    rows = [row for row in findings.rows if row.beside and row.ours]
    for row in rows:
        peers = {peer: [name for name in row.beside if name.startswith(peer)] for peer in _PEERS}
        plain = [name for name in row.beside if not name.startswith(_PEERS)]
        cells = [
            _code(row.what),
            seconds_text(row.ours.median if row.ours else None),
            "<br>".join(f"{name} {beside_text(row, name)}" for name in plain) or "-",
            *("<br>".join(beside_text(row, name) for name in names) or "-" for names in peers.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    said = list(_missing(findings))
    return "\n".join([*lines, *(["", "Not measured:", "", *said] if said else [])])


def _missing(findings: Findings) -> Iterator[str]:
    """Say what could not be measured, and why."""
    for row in findings.rows:
        for name, why in row.missing.items():
            yield f"- {name}, {_code(row.what)}: {' '.join(why.split())}"


def _picture(chart: Chart) -> str:
    note = f"\n\n{chart.note}" if chart.note else ""
    return f"![{chart.says}]({FOLDER}/{chart.name}.svg)" + note


def _code(what: str) -> str:
    """Return a row's name with what is called in it as code."""
    return re.sub(r'(\w+\("[^|]*?"\)|\w*execute_\w+|put_file)', r"`\1`", what, count=1)
