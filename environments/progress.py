"""How far something is that takes its time: a start, or the transfer of a file."""

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
from environments.loop import Pieces, current, in_worker
from environments.observation.seam import current_observation

if TYPE_CHECKING:
    from typing_extensions import Buffer

INTERVAL = 0.1
"""Seconds between two reports of one thing. Its beginning, and a new thing, are told at once."""


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
    complete: bool = False
    """Whether this is the last of a start, or of a transfer, that came to its end."""


OnProgress = Callable[[Progress], object]
"""Called of a transfer in the thread that waits for it, of a start in a thread of ours. The work waits meanwhile."""
reports_of: ContextVar[Pieces | None] = ContextVar("hermes_reports", default=None)
"""Takes reports to the thread that waits for a transfer; None reports where the transfer is."""


class Reporter:
    """Tells a callback what an environment is doing. Without one, it does nothing.

    What the callback raises is logged, once, and stops nothing: no target is left half made by a broken progress bar.

    Args:
        backend: The backend's name.
    """

    def __init__(self, backend: str) -> None:
        self.backend = backend
        """The backend's name."""
        self._lock = threading.Lock()
        self._last: tuple[str, float] = ("", 0.0)
        self._has_failed = False
        self.callback: OnProgress | None = None
        """What is told."""

    @property
    def is_heard(self) -> bool:
        """True if a report made here and now has a receiver."""
        return self.callback is not None or current_observation().takes_notes

    def tell(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report how far something is. Reports of the same thing that come too fast are left out, but for its end.

        Args:
            what: What is being done.
            done: Bytes that are done.
            total: Bytes in all.
            complete: See `Progress`.
        """
        if not self.is_heard:
            return
        now = time.monotonic()
        with self._lock:
            if self._last[0] == what and now - self._last[1] < INTERVAL and (done is None or done != total):
                return
            self._last = (what, now)
        self.report(what, done, total, complete=complete)

    def report(self, what: str, done: int | None, total: int | None, *, complete: bool = False) -> None:
        """Report the same, however fast it comes."""
        if self.is_heard:
            self.deliver(Progress(self.backend, what, done, total, complete))

    def deliver(self, progress: Progress) -> None:
        """Note a report in what is observed, and call the callback."""
        current_observation().note(progress.what, progress.done, progress.total, complete=progress.complete)
        try:
            if callback := self.callback:
                callback(progress)
        except Exception:
            if not self._has_failed:
                from environments.log import logger  # with the first record

                self._has_failed = True
                logger(__name__).exception(
                    "on_progress failed at %r; it is called on, and its further errors are not told", progress.what
                )

    @asynccontextmanager
    async def counting(self, what: str, total: int | None = None) -> AsyncIterator[Counter]:
        """Report a transfer: its beginning, its bytes as they are counted, and that it is complete. Used on the loop.

        Args:
            what: What is being transferred.
            total: Bytes in all, where that is known.
        """
        counter = Counter(self, what, total)
        await counter.report()
        yield counter
        counter.total = counter.done
        await counter.report(complete=True)


class Counter:
    """Counts the bytes of one transfer, in worker threads. The transfer ends here with its scope.

    Args:
        reporter: Receives the reports, not too often.
        what: What is being transferred.
        total: Bytes in all, where that is known.
    """

    def __init__(self, reporter: Reporter, what: str, total: int | None) -> None:
        self._reporter, self._what = reporter, what
        self._reports = reports_of.get()
        self._reported = 0.0
        self.total = total
        """Bytes in all, where that is known."""
        self.done = 0
        """Bytes so far."""

    def add(self, size: int) -> None:
        """Count some more bytes."""
        self.at(self.done + size)

    def at(self, done: int, total: int | None = None) -> None:
        """Say how many bytes there are so far, and in all, if that is not known yet.

        Raises:
            CallCancelledError: The scope of the current thread was cancelled.
        """
        check_scope()
        self.done = done
        self.total = total if self.total is None else self.total
        if time.monotonic() - self._reported >= INTERVAL and self._reporter.is_heard:
            if self._reports is None:
                self._reported = time.monotonic()
                self._reporter.deliver(self._progress())
            else:
                asyncio.run_coroutine_threadsafe(self.report(), current().loop).result()

    def _progress(self, complete: bool = False) -> Progress:
        return Progress(self._reporter.backend, self._what, self.done, self.total, complete)

    async def report(self, *, complete: bool = False) -> None:
        """Report how far it is. Used on the loop."""
        self._reported = time.monotonic()
        if self._reports is not None:
            await self._reports.report(self._progress(complete))
        elif self._reporter.is_heard:
            await in_worker(self._reporter.deliver, self._progress(complete))

    def into(self, file: BinaryIO) -> BinaryIO:
        """Return a file that counts what is written to another one."""
        return cast(BinaryIO, _CountedFile(file, self))


class _CountedFile(io.BufferedIOBase):
    """Passes on what is written, and counts it by where that ends."""

    def __init__(self, file: BinaryIO, counter: Counter) -> None:
        self._file = file
        self._counter = counter

    def writable(self) -> bool:
        """Whether it can be written to."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Write bytes."""
        size = self._file.write(data)
        self._counter.at(self._file.tell())
        return size

    def tell(self) -> int:
        """Return where the next byte goes."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go elsewhere."""
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Cut the file off."""
        return self._file.truncate(size)
