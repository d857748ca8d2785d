"""How far something is that takes its time: a start, or the transfer of a file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from environments.log import logger

INTERVAL = 0.1
"""Seconds between two reports of one thing. Its beginning, and a new thing, are told at once."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one thing is."""

    backend: str
    """The backend's name."""
    what: str
    """What is being done, such as `pulling image python:3.12-slim`."""
    done: int | None = None
    """Bytes that are done; None where it is not told."""
    total: int | None = None
    """Bytes in all; None where it is not known."""


OnProgress = Callable[[Progress], object]
"""Called in whichever thread does the work, at times in several at once. The work waits meanwhile."""


class Reporter:
    """Tells a callback what an environment is doing. Without one, it does nothing.

    What the callback raises is logged, once, and stops nothing: no target is left half made by a broken progress bar.

    Args:
        backend: The backend's name.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._last: tuple[str, float] = ("", 0.0)
        self._has_failed = False
        self.callback: OnProgress | None = None
        """What is told."""

    def tell(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Report how far something is. Reports of the same thing that come too fast are left out, but for its end.

        Args:
            what: What is being done.
            done: Bytes that are done.
            total: Bytes in all.
        """
        if self.callback is None:
            return
        now = time.monotonic()
        with self._lock:
            if self._last[0] == what and now - self._last[1] < INTERVAL and (done is None or done != total):
                return
            self._last = (what, now)
        self._call(Progress(self._backend, what, done, total))

    def _call(self, progress: Progress) -> None:
        callback = self.callback
        try:
            if callback:
                callback(progress)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log.exception("on_progress failed with %s, and is called on", progress)

    @contextmanager
    def counting(self, what: str, total: int | None = None) -> Iterator[Counter]:
        """Report a transfer: its beginning, its bytes as they are counted, and that it is complete.

        Args:
            what: What is being transferred.
            total: Bytes in all, where that is known.
        """
        counter = Counter(self, what, total)
        self.tell(what, 0, total)
        yield counter
        self.tell(what, counter.done, counter.done)


class Counter:
    """Counts the bytes of one transfer.

    Args:
        reporter: Is told of them.
        what: What is being transferred.
        total: Bytes in all, where that is known.
    """

    def __init__(self, reporter: Reporter, what: str, total: int | None) -> None:
        self._reporter = reporter
        self._what = what
        self._total = total
        self.done = 0
        """Bytes so far."""

    def add(self, size: int) -> None:
        """Count some more bytes."""
        self.done += size
        self._reporter.tell(self._what, self.done, self._total)

    def at(self, done: int, total: int | None = None) -> None:
        """Say how many bytes there are so far, and in all."""
        self.done = done
        self._total = total if total is not None else self._total
        self._reporter.tell(self._what, done, self._total)
