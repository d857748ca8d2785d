"""Progress reports of starts and transfers: values, the reporter, and the byte counter of a transfer."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from environments.cancellation import check_scope
from environments.errors import CallCancelledError
from environments.log import logger
from environments.loop import OutputQueue, current, in_worker
from environments.observation.events import current_operation

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logger(__name__)

INTERVAL = 0.1
"""Minimum seconds between two reports of one step. The first report of a step is sent at once."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a start or a transfer."""

    backend: str
    """Name of the backend."""
    what: str
    """Current step, such as `pulling image python:3.12-slim`."""
    done: int | None = None
    """Bytes done; None if unknown."""
    total: int | None = None
    """Bytes in total; None if unknown."""
    complete: bool = False
    """True for the last report of a successful start or transfer."""


OnProgress = Callable[[Progress], object]
"""Callback for progress: of a transfer in the waiting thread, of a start in a worker thread. The work waits for its
return."""
reports_of: ContextVar[OutputQueue | None] = ContextVar("hermes_reports", default=None)
"""Carries reports to the thread that waits for a transfer; None reports in the current thread."""


class Reporter:
    """Reports the progress of an environment to a callback and to observers. Without a receiver, does nothing.

    The first exception of the callback is logged, the others ignored: a broken progress bar must not leave a target
    half created.

    Args:
        backend: Name of the backend.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        """Name of the backend."""
        self._lock = threading.Lock()
        self._last: tuple[str, float] = ("", 0.0)
        self._has_failed = False
        self.callback: OnProgress | None = None
        """Receives the reports."""

    @property
    def has_receiver(self) -> bool:
        """True if a report from the current thread has a receiver."""
        return self.callback is not None or current_operation().takes_notes

    def report(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report progress. Too frequent reports of one step are dropped, except its last.

        Args:
            what: The step.
            done: Bytes done.
            total: Bytes in total.
            complete: See `Progress`.
        """
        if not self.has_receiver:
            return
        now = time.monotonic()
        with self._lock:
            if self._last[0] == what and now - self._last[1] < INTERVAL and (done is None or done != total):
                return
            self._last = (what, now)
        self.report_now(what, done, total, complete=complete)

    def report_now(self, what: str, done: int | None, total: int | None, *, complete: bool = False) -> None:
        """Report progress without dropping."""
        if self.has_receiver:
            self.deliver(Progress(self.backend, what, done, total, complete))

    def deliver(self, progress: Progress) -> None:
        """Pass a report to the observers and to the callback."""
        current_operation().note(progress.what, progress.done, progress.total, complete=progress.complete)
        try:
            if callback := self.callback:
                callback(progress)
        except CallCancelledError:
            pass  # an awaited callback whose call is over: a start may go on for other calls
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                log.exception("on_progress failed at %r; further errors of the callback are not logged", progress.what)

    @asynccontextmanager
    async def counting(self, what: str, total: int | None = None) -> AsyncIterator[Counter]:
        """Report a transfer: start, bytes as counted, and completion. Used on the loop.

        Args:
            what: Description of the transfer.
            total: Bytes in total, if known.
        """
        counter = Counter(self, what, total)
        await counter.report()
        yield counter
        counter.total = counter.done
        await counter.report(complete=True)


class Counter:
    """Counts the bytes of a transfer, in worker threads. Ends the transfer when its scope is cancelled.

    Args:
        reporter: Receives the reports, at limited frequency.
        what: Description of the transfer.
        total: Bytes in total, if known.
    """

    def __init__(self, reporter: Reporter, what: str, total: int | None) -> None:
        self._reporter, self._what = reporter, what
        self._reports = reports_of.get()
        self._reported = 0.0
        self.total = total
        """Bytes in total, if known."""
        self.done = 0
        """Bytes so far."""

    def add(self, size: int) -> None:
        """Count more bytes."""
        self.at(self.done + size)

    def at(self, done: int, total: int | None = None) -> None:
        """Set the bytes so far, and the total unless known already.

        Raises:
            CallCancelledError: The scope of the current thread was cancelled.
        """
        check_scope()
        self.done = done
        self.total = total if self.total is None else self.total
        if time.monotonic() - self._reported >= INTERVAL and self._reporter.has_receiver:
            if self._reports is None:
                self._reported = time.monotonic()
                self._reporter.deliver(self._progress())
            else:
                asyncio.run_coroutine_threadsafe(self.report(), current().loop).result()

    def _progress(self, complete: bool = False) -> Progress:
        return Progress(self._reporter.backend, self._what, self.done, self.total, complete)

    async def report(self, *, complete: bool = False) -> None:
        """Report the current count. Used on the loop."""
        self._reported = time.monotonic()
        if self._reports is not None:
            await self._reports.report(self._progress(complete))
        elif self._reporter.has_receiver:
            await in_worker(self._reporter.deliver, self._progress(complete))

    def into(self, file: BinaryIO) -> BinaryIO:
        """Return a file that counts the bytes written to another file."""
        return cast(BinaryIO, _CountedFile(file, self))


class _CountedFile(io.BufferedIOBase):
    """Counts the bytes written to a file by its position."""

    def __init__(self, file: BinaryIO, counter: Counter) -> None:
        self._file = file
        self._counter = counter

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        size = self._file.write(data)
        self._counter.at(self._file.tell())
        return size

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        return self._file.truncate(size)
