"""The progress of a batch, its summary, and the progress line on standard error."""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from environments.plain_number import plain_number
from hermes_env.batch.result import STATUSES, Result, Status

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

Stop = Literal["interrupted", "budget"]
WINDOW = 30.0
"""Seconds over which the rate is taken."""
_STEP = 0.5
"""Seconds between two points of the rate that are kept."""
LINE_INTERVAL = 10.0
"""Seconds between two lines where standard error is no terminal."""
SHOW_CURSOR = "\x1b[?25h"
"""The terminal sequence to send when the program leaves at once while a bar is shown."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch, of its tasks that had no result before this run."""

    total: int | None
    """The number of these tasks; None where it is not known."""
    done: int
    """The number that have a result."""
    failed: int
    """The number of these without success."""
    running: int
    """The number that run, or wait for their environment."""
    seconds: float
    """Seconds since the run began."""
    rate: float
    """Tasks done per second over the last half minute."""
    seconds_left: float | None
    """Seconds that the rest takes at that rate; None where it is not known."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one run of a batch."""

    counts: Mapping[Status, int]
    """Results of this run, by status."""
    earlier: Mapping[Status, int] = field(default_factory=dict)
    """Results of tasks that were not run again, by status: from earlier runs, or `lost` with the run before."""
    others: int = 0
    """The number of results of other tasks in the file; 0 where the tasks are not known."""
    left: int | None = 0
    """The number of tasks without a result; None where it is not known."""
    seconds: float = 0.0
    """Seconds that the run took."""
    stopped: Stop | None = None
    """The reason of an early end: an interrupt, or the time budget."""
    out: Path | None = None
    """The file of results."""
    results: tuple[Result, ...] = ()
    """The results, if there is no file."""

    @property
    def ok(self) -> bool:
        """True if each task has a result with success."""
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
                text += " (run the same again to run them)" if self.out else ""
        return text

    def to_dict(self) -> dict[str, object]:
        """Return the fields without the results, ready for JSON."""
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
    """Return the statuses that occur, with their counts, in the order of `STATUSES`."""
    return {status: counts[status] for status in STATUSES if counts[status]}


class Rate:
    """The rate of something that is done, per second.

    Args:
        began: When it began, on the monotonic clock.
    """

    def __init__(self, began: float) -> None:
        self._points: deque[tuple[float, int]] = deque([(began, 0)])

    def at(self, now: float, done: int) -> float:
        """Return the rate over the last `WINDOW` seconds, and keep this point.

        Args:
            now: The moment, on the monotonic clock.
            done: How much is done in all.
        """
        while len(self._points) > 1 and now - self._points[1][0] >= WINDOW:
            self._points.popleft()
        then, before = self._points[0]
        if now - self._points[-1][0] >= _STEP:
            self._points.append((now, done))
        return (done - before) / (now - then) if now > then else 0.0


class ShownBatch:
    """Shows the progress of a batch on standard error: a moving line on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Bar | None = None
        self._told = time.monotonic()

    def tell(self, progress: BatchProgress) -> None:
        """Show a progress: the `progress` callback of `run_batch`."""
        if self._is_terminal:
            if self._bar is None:
                self._bar = _bar()
                self._bar.add_task("", total=None)
                self._bar.start()
            task = self._bar.task_ids[0]
            self._bar.update(task, total=progress.total, completed=progress.done, description=described(progress))
        elif sys.stderr is not None and time.monotonic() - self._told >= LINE_INTERVAL:
            self._told = time.monotonic()
            print(f"hermes-env: {described(progress)}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()


def described(progress: BatchProgress) -> str:
    """Return a progress in one line of text."""
    total = "" if progress.total is None else f" of {progress.total}"
    parts = [f"{progress.done}{total} done", f"{progress.running} running"]
    if progress.failed:
        parts.insert(1, f"{progress.failed} failed")
    if progress.rate:
        parts.append(f"{plain_number(round(progress.rate, 2))}/s")
    if progress.seconds_left is not None:
        parts.append(f"{clock(progress.seconds_left)} left")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """Return a time as `hours:minutes:seconds`, without the hours if there are none."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar() -> Bar:
    from rich.console import Console  # only a terminal needs it
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
