"""How far something is that takes its time: a start, or the transfer of a file."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from environments.cancellation import check_scope
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

    def tell(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report how far something is. Reports of the same thing that come too fast are left out, but for its end.

        Args:
            what: What is being done.
            done: Bytes that are done.
            total: Bytes in all.
            complete: See `Progress`.
        """
        if self.callback is None and not current_observation().takes_notes:
            return
        now = time.monotonic()
        with self._lock:
            if self._last[0] == what and now - self._last[1] < INTERVAL and (done is None or done != total):
                return
            self._last = (what, now)
        self.report(what, done, total, complete=complete)

    def report(self, what: str, done: int | None, total: int | None, *, complete: bool = False) -> None:
        """Report the same, however fast it comes."""
        callback = self.callback
        current_observation().note(what, done, total, complete=complete)
        try:
            if callback:
                callback(Progress(self._backend, what, done, total, complete))
        except Exception:
            if not self._has_failed:
                from environments.log import logger  # with the first record

                self._has_failed = True
                logger(__name__).exception(
                    "on_progress failed at %r; it is called on, and its further errors are not told", what
                )

    @contextmanager
    def counting(self, what: str, total: int | None = None) -> Iterator[Counter]:
        """Report a transfer: its beginning, its bytes as they are counted, and that it is complete.

        Args:
            what: What is being transferred.
            total: Bytes in all, where that is known.
        """
        counter = Counter(self, what, total)
        self.report(what, 0, total)
        yield counter
        self.report(what, counter.done, counter.done, complete=True)


class Counter:
    """Counts the bytes of one transfer, which ends here with the scope that it is done in.

    Args:
        reporter: Is told of them, not too often.
        what: What is being transferred.
        total: Bytes in all, where that is known.
    """

    def __init__(self, reporter: Reporter, what: str, total: int | None) -> None:
        self._reporter = reporter
        self._what = what
        self._told = time.monotonic()
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
        if (now := time.monotonic()) - self._told >= INTERVAL:
            self._told = now
            self._reporter.report(self._what, done, self.total)

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the same pieces, each of which counts when the next one is asked for."""
        for piece in pieces:
            yield piece
            self.add(len(piece))

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
