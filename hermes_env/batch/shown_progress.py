"""How far a batch is, on standard error: a line that moves on a terminal, and now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from environments.plain_number import plain_number
from hermes_env.batch.summary import BatchProgress

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

LINE_INTERVAL = 10.0
"""Seconds between two lines where standard error is no terminal."""
SHOW_CURSOR = "\x1b[?25h"
"""What a terminal is sent by a program that leaves at once while a bar is shown."""


class ShownBatch:
    """Shows the progress of a batch while the block runs."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Bar | None = None
        self._told = time.monotonic()

    def tell(self, progress: BatchProgress) -> None:
        """Take what `run_batch` is to be given as `progress`."""
        if self._is_terminal:
            self._show(progress)
        elif sys.stderr is not None and time.monotonic() - self._told >= LINE_INTERVAL:
            self._told = time.monotonic()
            print(f"hermes-env: {described(progress)}", file=sys.stderr, flush=True)

    def _show(self, progress: BatchProgress) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._bar.add_task("", total=None)
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(task, total=progress.total, completed=progress.done, description=described(progress))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()


def described(progress: BatchProgress) -> str:
    """Return how far a batch is, in a line for people."""
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
    """Return a time as `hours:minutes:seconds`, or without the hours where there are none."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar() -> Bar:
    from rich.console import Console  # which only a terminal has need of
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
