"""A measured operation, and the table of all operations on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from rich.table import Table

from benchmarks.measure import Measured, Times

NONE = "-"
"""The cell without a number."""
T = TypeVar("T")
RAW, OURS = "raw", "ours"
"""Prefixes of names for the raw cost and for this package, see `Row.of`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured operation. A missing value is None."""

    what: str
    raw: Times | None = None
    """The raw cost: the same work without this package."""
    raw_is: str = ""
    ours: Times | None = None
    goal: float | None = None
    """The goal, as a multiple of the raw cost."""
    limit: float | None = None
    """The goal in seconds."""
    beside: Mapping[str, Times] = field(default_factory=dict)
    """Times of other packages and clients for the same work, by name."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """The reasons for missing packages and clients, by name."""
    note: str = ""

    @classmethod
    def of(
        cls,
        what: str,
        measured: Measured,
        *,
        ours: str = OURS,
        raw: str = RAW,
        raw_is: str = "",
        goal: float | None = None,
        limit: float | None = None,
        note: str = "",
        alone: bool = False,
    ) -> Self:
        """Make a row from several ways to do the same work, measured in turns.

        Args:
            what: The work.
            measured: The times.
            ours: The name of this package in `measured`; begins with `ours`.
            raw: The name of the raw cost in `measured`; begins with `raw`.
            raw_is: See the row's attribute.
            goal: See the row's attribute.
            limit: See the row's attribute.
            note: See the row's attribute.
            alone: Leave out other packages and clients, as shown in another row.
        """
        failed = [why for name, why in measured.missing.items() if name in {raw, ours}]
        return cls(
            what=what,
            raw=measured.times.get(raw),
            raw_is=raw_is,
            ours=measured.times.get(ours),
            goal=goal,
            limit=limit,
            beside={} if alone else _others(measured.times),
            missing={} if alone else _others(measured.missing),
            note="; ".join([*(f"not measured: {why}" for why in failed), *([note] if note else [])]),
        )

    @property
    def ratio(self) -> float | None:
        """Our median as a multiple of the raw cost."""
        return self.ours.median / self.raw.median if self.ours and self.raw else None

    @property
    def reached(self) -> bool | None:
        """True if the goal is reached, rounded to a tenth; None without a goal or a measurement."""
        if self.ours is None:
            return None
        if self.limit is not None:
            return self.ours.median <= self.limit
        if self.goal is None or self.ratio is None:
            return None
        return round(self.ratio, 1) <= round(self.goal, 1)

    def goal_text(self) -> str:
        """Return the goal as text."""
        if self.limit is not None:
            return seconds_text(self.limit)
        return NONE if self.goal is None else f"{self.goal:.2g}x"


def _others(by_name: Mapping[str, T]) -> dict[str, T]:
    return {name: each for name, each in by_name.items() if not name.startswith((RAW, OURS))}


def table_of(rows: Iterable[Row]) -> Table:
    """Return the rows as a table to print."""
    table = Table(caption="Medians. What counts are the ratios: the times are those of this machine at this moment.")
    for name in ("", "raw", "ours", "ours/raw", "goal"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    table.add_column("beside it, in times of ours; raw is", ratio=1)
    for row in rows:
        own = (seconds_text(times.median if times else None) for times in (row.raw, row.ours))
        table.add_row(row.what, *own, ratio_text(row.ratio), row.goal_text(), _beside(row))
    return table


def _beside(row: Row) -> str:
    parts = [f"{name} {beside_text(row, name)}" for name in row.beside]
    parts += [f"{name}: not measured, {why}" for name, why in row.missing.items()]
    parts += [f"raw: {row.raw_is}"] if row.raw_is else []
    return "; ".join([*parts, row.note] if row.note else parts)


def beside_text(row: Row, name: str) -> str:
    """Return the median of another way, and its multiple of ours."""
    times = row.beside[name]
    of_ours = f" ({ratio_text(times.median / row.ours.median)})" if row.ours else ""
    return seconds_text(times.median) + of_ours


def seconds_text(value: float | None) -> str:
    """Return seconds as text, in s or ms."""
    if value is None:
        return NONE
    if value >= 1:
        return f"{value:.2f} s"
    if value >= 0.01:
        return f"{value * 1000:.0f} ms"
    return f"{value * 1000:.2g} ms"


def ratio_text(value: float | None) -> str:
    """Return a ratio as text."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value:.2g}x"
    return f"{value:.1f}x" if value < 10 else f"{value:,.0f}x"
