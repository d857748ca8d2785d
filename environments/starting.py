"""Starts of targets: stopping, time limits, and progress reports of starts and transfers."""

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
from environments.loop import OutputQueue, current, in_worker, shielded, spawn
from environments.observation.events import current_operation
from environments.plain_number import plain_number

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

log = logger(__name__)

INTERVAL = 0.1
"""Minimum seconds between two reports of one step. The first report of a step is sent at once."""


@dataclass(frozen=True, slots=True)
class StartLimits:
    """Rate limits for the starts of targets in one place."""

    place: str = ""
    """The place of the limits, such as an engine's address; empty for the backend as a whole."""
    at_once: int | None = 16
    """Maximum starts in progress; None is no limit."""
    per_second: float | None = None
    """Maximum starts a second; None is no limit."""
    look_interval: float = 2.0
    """Seconds between checks that an idle environment `is_ready`."""


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


class Start:
    """One attempt to start a target. Any thread may stop the attempt at any time.

    Args:
        backend: Name of the backend, for errors.
        reporter: Receives the progress of the start.
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
        """True once stopped."""
        return self._stopped.is_set()

    def mark_stopped(self, why: str, timed_out: bool = False) -> None:
        """Mark the start as stopped; call `abort` next.

        Args:
            why: The reason. The first reason is reported.
            timed_out: True for a time limit.
        """
        with self._lock:
            if not self.stopped:
                self._why, self._timed_out = why, timed_out
                self._stopped.set()

    def abort(self) -> None:
        """Abort the wait of a stopped start. Repeat until the start has ended."""
        self._scope.cancel()

    @property
    def has_detached_work(self) -> bool:
        """True while detached work continues."""
        return any(
            each.is_alive() if isinstance(each, threading.Thread) else not each.done() for each in self._detached
        )

    def error(self) -> StartStoppedError:
        """Return the error of a stopped start."""
        return stopped_error(self.backend, self._why, self._timed_out)

    # For backends.

    def check(self) -> None:
        """Raise StartStoppedError once the start is stopped."""
        if self.stopped:
            raise self.error()

    def pause(self, seconds: float) -> None:
        """Sleep. Raises StartStoppedError as soon as the start is stopped."""
        self._stopped.wait(seconds)
        self.check()

    def report(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Report the current step, with its progress in bytes, see `Progress`."""
        self._reporter.report(what, done, total, complete=complete)

    @contextlib.contextmanager
    def aborting(self, abort: Callable[[], object]) -> Iterator[None]:
        """Call `abort` when the start is stopped during the block, to end the block's wait.

        `abort` runs in another thread, possibly several times until the block ends: a wait may begin just after the
        first call.

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
        """Return the result of a call that cannot be aborted. If the start is stopped, the call continues detached.

        Args:
            make: Creates a resource, on a thread of its own.
            undo: Removes the resource after the end of a detached call, also of a failed one: a failed call may have
                created the resource anyway.

        Both run outside of this start, and are not aborted.

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

    # For backends that start on the loop thread, where a stopped start is cancelled.

    async def report_on_loop(self, what: str, *, complete: bool = False) -> None:
        """Report a step from the loop, in order, on a worker thread: the callback is the user's."""
        async with self._report_lock:
            if self._reporter.has_receiver:
                await in_worker(lambda: self.report(what, complete=complete))

    async def await_detachable(
        self, make: Coroutine[Any, Any, T], undo: Callable[[], Coroutine[Any, Any, object]]
    ) -> T:
        """Return the result of a coroutine that cannot be aborted. If cancelled, the coroutine continues detached.

        Args:
            make: Creates a resource.
            undo: Removes the resource after the end of a detached coroutine, also of a failed one.
        """
        with unstoppable():
            making = spawn(make)
        try:
            return await shielded(making)
        except asyncio.CancelledError:
            self.detach(_undone(making, undo))
            raise

    def detach(self, work: Coroutine[Any, Any, object]) -> None:
        """Start work that continues after the start was stopped."""
        with unstoppable():
            task = spawn(work)
        task.set_name("hermes-start")
        self._detached.append(task)

    def active(self) -> AbstractContextManager[None]:
        """Make this the current thread's start for the block, see `current_start`."""
        return holding(_current, self)


class _DetachableCall(Generic[T]):
    """A call that may continue detached, see `Start.run_detachable`."""

    def __init__(self, make: Callable[[], T], undo: Callable[[], object]) -> None:
        self._make = make
        self._undo = undo
        self._lock = threading.Lock()
        self._ended = self._left = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self.over = threading.Event()
        """Set at the end of the call, or when the wait for it ends."""
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
        """Detach the call: undo its result, now or at its end. Returns True if the call still runs."""
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
        """Return the result of the call, or raise its error."""
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
    log.warning("the resources of a stopped start could not be removed; run `hermes-env gc` later: %s", error)


_current: ContextVar[Start | None] = ContextVar("hermes_start", default=None)


def current_start() -> Start:
    """Return the current thread's start; without one, a start that is never stopped."""
    return _current.get() or Start("")


def unstoppable() -> AbstractContextManager[None]:
    """Leave the current start for the block, such as to remove the resources of a stopped start."""
    return holding(_current, None)


def is_abandoned() -> bool:
    """True if no caller waits for the current thread: its scope was cancelled, or its event set."""
    scope, limit = current_scope(), current_start_limit()
    return bool((scope and scope.cancelled) or (limit and limit.interrupted))


def stop_reason() -> tuple[str, bool] | None:
    """Return the reason to stop waiting for a start, and True for a time limit; None to keep waiting."""
    scope, limit = current_scope(), current_start_limit()
    if scope and scope.cancelled:
        return "its caller was cancelled", False
    if limit and limit.interrupted:
        return "it was interrupted", False
    if limit and limit.left <= 0:
        return f"the target was not up within {plain_number(limit.seconds)} s", True
    return None


def stopped_error(backend: str, why: str, timed_out: bool = False) -> StartStoppedError:
    """Return the error of a stopped start.

    Args:
        backend: Name of the backend.
        why: The reason.
        timed_out: True for a time limit.
    """
    return StartStoppedError(f"backend {backend!r}: the start was stopped: {why}", timed_out)
