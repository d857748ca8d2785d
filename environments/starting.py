"""One attempt to bring a target up: what a backend needs so that it can be stopped, whatever it waits for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from environments.cancellation import CancelScope, current_scope, current_start_limit
from environments.contexts import holding
from environments.errors import StartStoppedError
from environments.log import logger
from environments.loop import in_worker, shielded, spawn
from environments.plain_number import plain_number
from environments.progress import Reporter

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
        self._telling = asyncio.Lock()

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._stopped.is_set()

    def mark(self, why: str, timed_out: bool = False) -> None:
        """Note that it is stopped; `break_off` is to follow.

        Args:
            why: What stopped it. Of several, the first is told.
            timed_out: Whether that was a time limit.
        """
        with self._lock:
            if not self.stopped:
                self._why, self._timed_out = why, timed_out
                self._stopped.set()

    def break_off(self) -> None:
        """Break off what a start that is stopped waits for. Called again while it has not ended."""
        self._scope.cancel()

    @property
    def has_detached(self) -> bool:
        """True if something went on alone when the start was stopped."""
        return bool(self._detached)

    @property
    def goes_on(self) -> bool:
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

    def tell(self, what: str, done: int | None = None, total: int | None = None, *, complete: bool = False) -> None:
        """Say what is being done, and how far it is in bytes, see `Progress`."""
        self._reporter.tell(what, done, total, complete=complete)

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

    def alone(self, make: Callable[[], T], undo: Callable[[], object]) -> T:
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
        call = _Alone(make, undo)
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

    async def told(self, what: str, *, complete: bool = False) -> None:
        """Say what is being done, in a worker: the callback is the user's. What is said is told in order."""
        async with self._telling:
            if self._reporter.is_heard:
                await in_worker(lambda: self.tell(what, complete=complete))

    async def made(self, make: Coroutine[Any, Any, T], undo: Callable[[], Coroutine[Any, Any, object]]) -> T:
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


class _Alone(Generic[T]):
    """A call that may be left alone, see `Start.alone`."""

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
