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
"""Seconds of the window for the rate."""
_STEP = 0.5
"""Seconds between two kept points of the rate."""
LINE_INTERVAL = 10.0
"""Seconds between two lines where standard error is not a terminal."""
SHOW_CURSOR = "\x1b[?25h"
"""The terminal sequence that restores the cursor if the program exits while a bar is shown."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of a batch: of the tasks without a result before this run."""

    total: int | None
    """The number of these tasks; None if unknown."""
    done: int
    """The number with a result."""
    failed: int
    """The number with a result other than success."""
    running: int
    """The number of tasks that run, or wait for their environment."""
    seconds: float
    """Seconds since the run began."""
    rate: float
    """Tasks done per second over the last half minute."""
    seconds_left: float | None
    """Seconds for the remaining tasks at this rate; None if unknown."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one run of a batch."""

    counts: Mapping[Status, int]
    """Results of this run, by status."""
    earlier: Mapping[Status, int] = field(default_factory=dict)
    """Results of tasks not run again, by status: from earlier runs, or `lost` with the run before."""
    others: int = 0
    """The number of results of other tasks in the file; 0 if the tasks are unknown."""
    left: int | None = 0
    """The number of tasks without a result; None if unknown."""
    seconds: float = 0.0
    """Duration of the run in seconds."""
    stopped: Stop | None = None
    """The reason for an early end: an interrupt, or the time budget."""
    out: Path | None = None
    """The file of results."""
    results: tuple[Result, ...] = ()
    """The results of a batch without a file of results."""

    @property
    def ok(self) -> bool:
        """True if each task has status `success`."""
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
    """Return the counts above 0, in the order of `STATUSES`."""
    return {status: counts[status] for status in STATUSES if counts[status]}


class Rate:
    """The rate of finished tasks per second.

    Args:
        began: The start, on the monotonic clock.
    """

    def __init__(self, began: float) -> None:
        self._points: deque[tuple[float, int]] = deque([(began, 0)])

    def at(self, now: float, done: int) -> float:
        """Return the rate over the last `WINDOW` seconds, and keep this point.

        Args:
            now: The current time, on the monotonic clock.
            done: The number of finished tasks so far.
        """
        while len(self._points) > 1 and now - self._points[1][0] >= WINDOW:
            self._points.popleft()
        then, before = self._points[0]
        if now - self._points[-1][0] >= _STEP:
            self._points.append((now, done))
        return (done - before) / (now - then) if now > then else 0.0


class BatchDisplay:
    """Shows the progress of a batch on standard error: a progress bar on a terminal, a line every 10 s elsewhere."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Bar | None = None
        self._printed_at = time.monotonic()

    def update(self, progress: BatchProgress) -> None:
        """Show a progress: the `progress` callback of `run_batch`."""
        if self._is_terminal:
            if self._bar is None:
                self._bar = _bar()
                self._bar.add_task("", total=None)
                self._bar.start()
            task = self._bar.task_ids[0]
            self._bar.update(task, total=progress.total, completed=progress.done, description=described(progress))
        elif sys.stderr is not None and time.monotonic() - self._printed_at >= LINE_INTERVAL:
            self._printed_at = time.monotonic()
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
    """Return a duration as `hours:minutes:seconds`, or `minutes:seconds` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar() -> Bar:
    from rich.console import Console  # only a terminal needs it
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
