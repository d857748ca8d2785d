"""One measured thing, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was measured, in seconds. What could not be measured is None."""

    what: str
    raw: float | None = None
    """What it costs at least: the same without this package."""
    ours: float | None = None
    goal: float | None = None
    """How many times the raw cost it may take."""
    today: float | None = None
    """What the usual way without this package costs."""
    note: str = ""
    """What `raw` and `today` are, or why nothing was measured."""


def table_of(rows: Iterable[Row]) -> Table:
    """Return the rows as a table to print."""
    table = Table(caption="Medians. What counts are the ratios: the times are those of this machine at this moment.")
    for name in ("", "today", "raw", "ours", "ours/raw", "goal"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_column("raw is; today is", ratio=1)
    for row in rows:
        ratio = row.ours / row.raw if row.ours and row.raw else None
        times = (_seconds(value) for value in (row.today, row.raw, row.ours))
        table.add_row(row.what, *times, _ratio(ratio), _ratio(row.goal), row.note)
    return table


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1000:.3g} ms"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}x"
