"""Progress display on standard error: for a target's start, and for the inventory of backends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from environments.model_view import plain

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from environments.progress import Progress

TERMINAL_PATIENCE, PATIENCE = 0.5, 2.0
"""Seconds before a start is shown, on a terminal and elsewhere: most starts are faster and print nothing."""
FRAME, AGAIN = 0.1, 5.0
"""Seconds between two updates, on a terminal and elsewhere."""


class _Display:
    """Shows progress in a thread while the block runs."""

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty() and not verbose
        self._lock = threading.Lock()
        """Held while the thread is started or stopped."""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def _begin(self, show: Callable[[], None]) -> None:
        """Start the thread if necessary."""
        if self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=show, name="hermes-progress", daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Remove the display from the terminal."""
        with self._lock:
            thread, self._thread = self._thread, None
        self._over.set()
        if thread:
            thread.join()

    def _print(self, text: str) -> None:
        if sys.stderr is not None:
            print(f"hermes-env: {text}", file=sys.stderr, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hide()


class StartDisplay(_Display):
    """Shows the progress of a slow start while the block runs.

    Args:
        verbose: Above 0, each step is printed at once as a separate line.
    """

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._last: Progress | None = None
        self._printed = ""

    def update(self, progress: Progress) -> None:
        """Show progress: the `on_progress` callback of `create_environment`."""
        with self._lock:
            self._last = progress
            if self._verbose and progress.done is None:
                self._print_new(progress)
            if not progress.complete:
                self._begin(self._show_bar if self._is_terminal else self._show_lines)
        if progress.complete:
            self.hide()

    def _show_lines(self) -> None:
        pause = PATIENCE
        while not self._over.wait(pause):
            pause = AGAIN
            with self._lock:
                if self._last:
                    self._print_new(self._last)

    def _print_new(self, progress: Progress) -> None:
        if (text := described(progress)) != self._printed:
            self._printed = text
            self._print(text)

    def _show_bar(self) -> None:
        if self._over.wait(TERMINAL_PATIENCE):
            return
        with _bar() as bar:
            task = bar.add_task("")
            while not self._over.wait(FRAME):
                if progress := self._last:
                    what = plain(progress.what)
                    bar.update(task, description=what, completed=progress.done or 0, total=progress.total)


class InventoryDisplay(_Display):
    """Shows the backends still being queried, on one line of a terminal, while the block runs.

    Args:
        verbose: Above 0, each backend is printed as a separate line, also without a terminal.
    """

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._names: list[str] = []
        self._printed: set[str] = set()

    def update(self, names: Sequence[str]) -> None:
        """Show the names of the backends still being queried, see `OnLook` of `environments.inventory`."""
        with self._lock:
            self._names = list(names)
            if self._verbose and (new := [name for name in names if name not in self._printed]):
                self._printed.update(new)
                self._print(plain(f"querying {', '.join(new)}"))
            if self._is_terminal and names:
                self._begin(self._show)

    def _show(self) -> None:
        if self._over.wait(PATIENCE):
            return
        from rich.console import Console  # slow to import, and few commands need it
        from rich.text import Text

        with Console(stderr=True).status("") as status:
            while not self._over.wait(FRAME):
                status.update(Text(plain(f"querying {', '.join(self._names)}")))


def described(progress: Progress) -> str:
    """Return progress as one line, without terminal controls that a registry may have sent."""
    what = plain(progress.what)
    if progress.done is None:
        return what
    total = f" of {progress.total / 1e6:.0f}" if progress.total is not None else ""
    return f"{what}: {progress.done / 1e6:.0f}{total} MB"


def _bar() -> Bar:
    from rich.console import Console  # slow to import, and few commands need it
    from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
