"""One measured thing, and the table of all of them on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from rich.table import Table

from benchmarks.measure import Measured, Times

NONE = "-"
"""What stands where there is no number."""
T = TypeVar("T")
RAW, OURS = "raw", "ours"
"""What `Row.of` takes for the least cost, and for this package, as it does all that begins with either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that was measured. What could not be measured is None."""

    what: str
    raw: Times | None = None
    """What it costs at least: the same without this package."""
    raw_is: str = ""
    ours: Times | None = None
    goal: float | None = None
    """How many times the raw cost it may take."""
    limit: float | None = None
    """How many seconds it may take."""
    beside: Mapping[str, Times] = field(default_factory=dict)
    """What the same costs by what one would use without this package, by its name."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Why others are not beside it, by name."""
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
        """Make a row of what did the same work in turns.

        Args:
            what: The work.
            measured: What they took.
            ours: The name that this package has there, which begins with `ours`.
            raw: The name that the raw cost has there, which begins with `raw`.
            raw_is: As in the row, as are `goal`, `limit` and `note`.
            goal: See there.
            limit: See there.
            note: See there.
            alone: Leave out what is beside it, which another row has.
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
        """How many times the raw cost it takes."""
        return self.ours.median / self.raw.median if self.ours and self.raw else None

    @property
    def reached(self) -> bool | None:
        """Whether it is as quick as it is meant to be, to a tenth; None if nothing is said about that."""
        if self.ours is None:
            return None
        if self.limit is not None:
            return self.ours.median <= self.limit
        if self.goal is None or self.ratio is None:
            return None
        return round(self.ratio, 1) <= round(self.goal, 1)

    def goal_text(self) -> str:
        """Return the goal for people."""
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
    """Return what another one takes, and how many times of ours that is."""
    times = row.beside[name]
    of_ours = f" ({ratio_text(times.median / row.ours.median)})" if row.ours else ""
    return seconds_text(times.median) + of_ours


def seconds_text(value: float | None) -> str:
    """Return seconds for people."""
    if value is None:
        return NONE
    if value >= 1:
        return f"{value:.2f} s"
    if value >= 0.01:
        return f"{value * 1000:.0f} ms"
    return f"{value * 1000:.2g} ms"


def ratio_text(value: float | None) -> str:
    """Return a ratio for people."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value:.2g}x"
    return f"{value:.1f}x" if value < 10 else f"{value:,.0f}x"
