"""Starts of targets: stopping, aborting, detached calls, time limits and rate limits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from environments.cancellation import CancelScope, current_scope, current_start_limit, holding
from environments.errors import StartStoppedError
from environments.log import logger
from environments.loop import in_worker, shielded, spawn
from environments.plain_number import plain_number
from environments.progress import Reporter

T = TypeVar("T")

log = logger(__name__)


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
