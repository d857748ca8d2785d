"""The start of a target: how it can be stopped, and how far it is."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Generic, TypeVar, cast

from environments.cancellation import CancelScope, check_scope, current_scope, current_start_limit, holding
from environments.errors import CallCancelledError, StartStoppedError
from environments.log import logger
from environments.loop import Pieces, current, in_worker, shielded, spawn
from environments.observation.events import current_operation
from environments.plain_number import plain_number

if TYPE_CHECKING:
    from typing_extensions import Buffer

INTERVAL = 0.1
"""Seconds between two reports of one thing. Its beginning, and a new thing, are told at once."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    """How fast targets should be started in one place."""

    place: str = ""
    """The thing that the limits are limits of, such as an engine's address; the backend as a whole, if empty."""
    at_once: int | None = 16
    """How many starts may be under way; None is no limit."""
    per_second: float | None = None
    """How many starts may begin in a second; None is no limit."""
    look_interval: float = 2.0
    """Seconds between looks whether an environment that waits to be used `is_ready` still."""


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
    def has_receiver(self) -> bool:
        """True if a report made here and now has a receiver."""
        return self.callback is not None or current_operation().takes_notes

    def report(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report how far something is. Reports of the same thing that come too fast are left out, but for its end.

        Args:
            what: What is being done.
            done: Bytes that are done.
            total: Bytes in all.
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
        """Report the same, however fast it comes."""
        if self.has_receiver:
            self.deliver(Progress(self.backend, what, done, total, complete))

    def deliver(self, progress: Progress) -> None:
        """Note a report in what is observed, and call the callback."""
        current_operation().note(progress.what, progress.done, progress.total, complete=progress.complete)
        try:
            if callback := self.callback:
                callback(progress)
        except CallCancelledError:
            pass  # of a callback that is awaited, whose call is over: a start may go on for other calls
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
        if time.monotonic() - self._reported >= INTERVAL and self._reporter.has_receiver:
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
        elif self._reporter.has_receiver:
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


T = TypeVar("T")

log = logger(__name__)


class Start:
    """One attempt to bring a target up, which may be stopped from any thread at any moment.

    Args:
        backend: The backend's name, for errors.
        reporter: Is told what the start is doing.
    """

    def __init__(self, backend: str, reporter: Reporter | None = None) -> None:
        self.backend = backend
        self._reporter = reporter or Reporter(backend)
        self._scope = CancelScope()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._why = ""
        self._timed_out = False
        self._detached: list[threading.Thread | asyncio.Future[Any]] = []
        self._report_lock = asyncio.Lock()

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped.is_set()

    def mark_stopped(self, why: str, timed_out: bool = False) -> None:
        """Note that it is stopped; `abort` is to follow.

        Args:
            why: What stopped it. Of several, the first is told.
            timed_out: Whether that was a time limit.
        """
        with self._lock:
            if not self.stopped:
                self._why, self._timed_out = why, timed_out
                self._stopped.set()

    def abort(self) -> None:
        """Break off what a start that is stopped waits for. Called again while it has not ended."""
        self._scope.cancel()

    @property
    def has_detached_work(self) -> bool:
        """True while something goes on alone."""
        return any(
            each.is_alive() if isinstance(each, threading.Thread) else not each.done() for each in self._detached
        )

    def error(self) -> StartStoppedError:
        """Return what to raise once it was stopped."""
        return stopped_error(self.backend, self._why, self._timed_out)

    # For the backend.

    def check(self) -> None:
        """Raise StartStoppedError if the start was stopped."""
        if self.stopped:
            raise self.error()

    def pause(self, seconds: float) -> None:
        """Sleep. Raises StartStoppedError as soon as the start is stopped."""
        self._stopped.wait(seconds)
        self.check()

    def report(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Say what is being done, and how far it is in bytes, see `Progress`."""
        self._reporter.report(what, done, total, complete=complete)

    @contextlib.contextmanager
    def aborting(self, abort: Callable[[], object]) -> Iterator[None]:
        """Have `abort` called when the start is stopped while the block runs, to break off what that waits for.

        It is called from another thread, maybe several times, until the block is left: a wait may have begun just
        behind the first call.

        Raises:
            StartStoppedError: The start was stopped, and the block failed or did not begin.
        """
        self.check()
        try:
            with self._scope.calling(abort):
                yield
        except Exception as error:
            if self.stopped:
                raise self.error() from error
            raise

    def run_detachable(self, make: Callable[[], T], undo: Callable[[], object]) -> T:
        """Return what a call returns that cannot be broken off. If the start is stopped, the call goes on alone.

        Args:
            make: Makes something. It runs on a thread of its own.
            undo: Removes what that has made. Called behind the end of a call that nobody waits for any more, also of
                one that failed, as that may have made something all the same.

        Neither is at this start, so that nothing in them is broken off.

        Raises:
            StartStoppedError: The start was stopped before the call ended.
        """
        self.check()
        call = _DetachableCall(make, undo)
        call.thread.start()
        try:
            with self.aborting(call.over.set):
                call.over.wait()
        finally:
            if self.stopped and call.leave():
                self._detached.append(call.thread)
        self.check()
        return call.result()

    # For a backend that starts on the loop thread. A start that is stopped is cancelled there.

    async def report_on_loop(self, what: str, *, complete: bool = False) -> None:
        """Say what is being done, in a worker: the callback is the user's. What is said is told in order."""
        async with self._report_lock:
            if self._reporter.has_receiver:
                await in_worker(lambda: self.report(what, complete=complete))

    async def await_detachable(
        self, make: Coroutine[Any, Any, T], undo: Callable[[], Coroutine[Any, Any, object]]
    ) -> T:
        """Return what a coroutine makes that cannot be broken off. If this is cancelled, it goes on alone.

        Args:
            make: Makes something.
            undo: Removes that behind the end of a coroutine that went on alone, also of one that failed.
        """
        with unstoppable():
            making = spawn(make)
        try:
            return await shielded(making)
        except asyncio.CancelledError:
            self.detach(_undone(making, undo))
            raise

    def detach(self, work: Coroutine[Any, Any, object]) -> None:
        """Have something done that goes on when the start has been stopped."""
        with unstoppable():
            task = spawn(work)
        task.set_name("hermes-start")
        self._detached.append(task)

    def active(self) -> AbstractContextManager[None]:
        """Make this the start that the current thread is at in the block, see `current_start`."""
        return holding(_current, self)


class _DetachableCall(Generic[T]):
    """A call that may be left alone, see `Start.run_detachable`."""

    def __init__(self, make: Callable[[], T], undo: Callable[[], object]) -> None:
        self._make = make
        self._undo = undo
        self._lock = threading.Lock()
        self._ended = self._left = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.over = threading.Event()
        """Set at its end, or when it need not be waited for any more."""
        self.thread = threading.Thread(target=self._run, name="hermes-start-call", daemon=True)

    def _run(self) -> None:
        try:
            self._results.append(self._make())
        except BaseException as error:
            self._error = error
        with self._lock:
            self._ended, left = True, self._left
        self.over.set()
        if left:
            self._undone()

    def leave(self) -> bool:
        """Have it undone, now or when it ends, and return whether it has yet to end."""
        with self._lock:
            self._left = True
            if not self._ended:
                return True
        self._undone()
        return False

    def _undone(self) -> None:
        try:
            with unstoppable():
                self._undo()
        except Exception as error:
            _log_remains(error)

    def result(self) -> T:
        """Return what came of it, or raise that."""
        if self._error:
            raise self._error
        return self._results[0]


async def _undone(making: asyncio.Task[Any], undo: Callable[[], Coroutine[Any, Any, object]]) -> None:
    await asyncio.wait((making,))
    with contextlib.suppress(BaseException):
        making.result()
    try:
        await undo()
    except Exception as error:
        _log_remains(error)


def _log_remains(error: Exception) -> None:
    log.warning("what a stopped start has made could not be removed; `hermes-env gc` may: %s", error)


_current: ContextVar[Start | None] = ContextVar("hermes_start", default=None)


def current_start() -> Start:
    """Return the start that the current thread is at; where it is at none, one that nobody stops."""
    return _current.get() or Start("")


def unstoppable() -> AbstractContextManager[None]:
    """Let the current thread be at no start in the block, such as to remove what a stopped one has made."""
    return holding(_current, None)


def is_unwanted() -> bool:
    """Whether nobody waits any more for what the current thread does: its scope was cancelled, or its event set."""
    scope, limit = current_scope(), current_start_limit()
    return bool((scope and scope.cancelled) or (limit and limit.interrupted))


def reason_to_leave() -> tuple[str, bool] | None:
    """Return why the current thread is to wait no longer for a start, and whether that is a time limit; or None."""
    scope, limit = current_scope(), current_start_limit()
    if scope and scope.cancelled:
        return "what it was for was cancelled", False
    if limit and limit.interrupted:
        return "it was interrupted", False
    if limit and limit.left <= 0:
        return f"the target was not up within {plain_number(limit.seconds)} s", True
    return None


def stopped_error(backend: str, why: str, timed_out: bool = False) -> StartStoppedError:
    """Return what is raised of a start that was stopped.

    Args:
        backend: The backend's name.
        why: What stopped it.
        timed_out: Whether that was a time limit.
    """
    return StartStoppedError(f"backend {backend!r}: the start was stopped: {why}", timed_out)
