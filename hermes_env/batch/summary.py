"""How far a batch is, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hermes_env.batch.result import STATUSES, Result, Status

Stop = Literal["interrupted", "budget"]


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is, of its tasks that had no result before this run."""

    total: int | None
    """How many there are; None where that is not known."""
    done: int
    """How many have a result by now."""
    failed: int
    """How many of these are no success."""
    running: int
    """How many run just now, or wait for their environment."""
    seconds: float
    """How long the run has taken."""
    rate: float
    """Tasks done in a second, lately."""
    seconds_left: float | None
    """How long the rest takes at that rate; None where that cannot be said."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of one run of a batch."""

    counts: Mapping[Status, int]
    """Results of this run, by status."""
    earlier: Mapping[Status, int] = field(default_factory=dict)
    """Results of tasks that were not run again, by status: they were there, or are `lost` since the run before."""
    others: int = 0
    """How many results of other tasks are in the file; 0 where it is not known which tasks there are."""
    left: int | None = 0
    """How many tasks have no result yet; None where that is not known."""
    seconds: float = 0.0
    """How long the run took."""
    stopped: Stop | None = None
    """Why it ended before all was done: it was interrupted, or its time budget was over."""
    out: Path | None = None
    """The file of results."""
    results: tuple[Result, ...] = ()
    """The results, where they went to no file."""

    @property
    def ok(self) -> bool:
        """Whether each task has a result, and that is a success."""
        return self.left == 0 and not self.stopped and not (self.counts.keys() | self.earlier.keys()) - {"success"}

    def __str__(self) -> str:
        if not (self.counts or self.earlier or self.stopped) and self.left == 0:
            return "there were no tasks"
        text = f"{_listed(self.counts) or 'nothing was run'} in {self.seconds:.1f} s"
        if self.earlier:
            text += f"; not run again: {_listed(self.earlier)}"
        if self.others:
            text += f"; {self.out} holds {self.others} of other tasks, too"
        if self.stopped:
            text += "; interrupted" if self.stopped == "interrupted" else "; its time budget was over"
            if self.left != 0:
                text += f"; not begun: {'the rest' if self.left is None else self.left}"
                text += ", which running the same again does" if self.out else ""
        return text

    def to_dict(self) -> dict[str, object]:
        """Return the fields but the results, ready for JSON."""
        return {
            "counts": dict(self.counts),
            "earlier": dict(self.earlier),
            "others": self.others,
            "left": self.left,
            "seconds": round(self.seconds, 3),
            "stopped": self.stopped,
            "out": str(self.out) if self.out else None,
        }


def _listed(counts: Mapping[Status, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def counted(counts: Counter[Status]) -> dict[Status, int]:
    """Return how many there are of each status that there is, in the order of `STATUSES`."""
    return {status: counts[status] for status in STATUSES if counts[status]}
