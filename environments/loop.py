"""The loop thread: an asyncio event loop that owns all shells, streams, decoders, locks, deadlines and process exits.

A caller's thread submits a coroutine, waits on one lock, and runs its own callbacks. Signals, control-C and
asynchronous exceptions reach callers' threads only, never the loop thread, so that they cannot interrupt a state
change. The caller holds a `Call`. The loop cancels the work of a call whose caller has left.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import contextlib
import heapq
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from environments.cancellation import holding
from environments.errors import REFUSALS, TerminalError, without_cause
from environments.log import logger
from environments.output import Channel
from environments.poller import Poller, Timer

T = TypeVar("T")
_P = ParamSpec("_P")
_Method = TypeVar("_Method", bound=Callable[..., Any])
Piece = tuple[Any, bytes]
"""A channel with its output, or a progress report."""

QUEUED = 1024 * 1024
"""Back-pressure limit: bytes of output queued for a callback before the stream is paused."""
SLICE = 1.0
"""Seconds of one wait for the lock. A signal between Python's last check and the blocking system call does not
interrupt the wait; its handler runs afterwards."""
STOP_LIMIT = 10.0
"""Seconds that the program's exit waits for the loop's last tasks."""
CLOSE_LIMIT = 1.0
"""Seconds that the exit then waits for each client to close."""
IDLE_LIMIT = 2.0
"""Seconds until an idle worker thread ends."""
KEPT_WORKERS = 2
"""Number of worker threads that stay when idle, the first created: Python 3.12 starts no thread during the program's
exit."""

AT_EXIT = "the program is exiting, and all its commands were ended"
FORKED = "this process was forked during the call, which belongs to the parent"

log = logger(__name__)

callback_of: ContextVar[tuple[Call[Any], ...]] = ContextVar("hermes_callback_of", default=())
"""The calls whose callbacks the current thread or task runs, outermost first. A left call does not count: an
exception may have prevented its removal."""


class Pausable(Protocol):
    """A stream whose reading can be paused, for back-pressure."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Resume reading."""


class OutputQueue:
    """Output queued by the loop for a callback in another thread, with back-pressure on the stream.

    A stream is paused while more than `QUEUED` bytes wait.

    Args:
        wake: Wakes the thread that pops the pieces. Called on the loop.
    """

    def __init__(self, wake: Callable[[], object]) -> None:
        self._wake = wake
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._paused: Pausable | None = None
        self._dropped = False
        self._drained: asyncio.Future[None] | None = None
        self.holds_session = True
        """True if the session waits for the delivery of the output. The reader of a stream may be much later."""

    def offer(self, channel: Channel, data: bytes, stream: Pausable) -> None:
        """Queue output. Called on the loop."""
        if self._dropped:
            return
        self._pieces.append((channel, data))
        self._size += len(data)
        if self._size > QUEUED and self._paused is None:
            self._paused = stream
            stream.pause()
        self._wake()

    async def report(self, report: object) -> None:
        """Queue a progress report and wait for its delivery. Called on the loop."""
        if not self._dropped:
            self._pieces.append((report, b"."))
            self._size += 1
            self._wake()
            await self._emptied()

    def acknowledge(self, size: int) -> None:
        """Acknowledge bytes delivered to the callback, and resume a paused stream. Called on the loop."""
        self._size -= size
        if self._paused is not None and self._size <= QUEUED // 2:
            stream, self._paused = self._paused, None
            stream.resume()
        if self._drained is not None and (self._size <= 0 or self._dropped):
            self._drained.set_result(None)
            self._drained = None

    async def drained(self) -> None:
        """Wait until all output is delivered or dropped. Called on the loop."""
        if self.holds_session:
            await self._emptied()

    async def _emptied(self) -> None:
        if self._size > 0 and not self._dropped:
            self._drained = self._drained or current().loop.create_future()
            await self._drained

    def drop(self) -> None:
        """Drop all queued and future output. Called on the loop."""
        self._dropped = True
        self._pieces.clear()
        self.acknowledge(self._size)

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def pop_all(self) -> list[Piece]:
        """Return the queued pieces, with adjacent pieces of one channel joined. Called in the callback's thread."""
        joined: list[tuple[object, list[bytes]]] = []
        while self._pieces:
            channel, data = self._pieces.popleft()
            if joined and joined[-1][0] is channel:
                joined[-1][1].append(data)
            else:
                joined.append((channel, [data]))
        return [(channel, b"".join(parts)) for channel, parts in joined]


class Call(Generic[T]):
    """Work on the loop with a waiting caller.

    Args:
        work: A coroutine function; its argument is this call.
        owner: The waiting thread or task. A session recognises calls from its own callback by the owner.
        wake: Wakes the caller. Called on the loop, after the tasks that are ready.
        wants_pieces: True if the caller has a callback for output.
    """

    __slots__ = (
        "_wake",
        "context",
        "done",
        "error",
        "left",
        "owner",
        "pieces",
        "session",
        "task",
        "undo",
        "value",
        "work",
    )

    def __init__(
        self, work: Callable[[Call[T]], Awaitable[T]], owner: object, wake: Callable[[], object], wants_pieces: bool
    ) -> None:
        self.work, self.owner, self._wake = work, owner, wake
        self.context = copy_context()
        self.pieces = OutputQueue(self.wake) if wants_pieces else None
        self.session: object = None
        """The session whose lock the work holds."""
        self.task: asyncio.Task[None] | None = None
        self.undo: Callable[[T], Coroutine[Any, Any, object]] | None = None
        """Undoes the work's result for a caller that left at that moment."""
        self.value: Any = None
        self.error: BaseException | None = None
        self.done = self.left = False

    def wake(self) -> None:
        """Schedule the wake-up of the caller. On the loop."""
        current().poller.wakes.append(self._wake)

    async def run(self) -> None:
        """Run the work and wake the caller. On the loop."""
        try:
            self.value = await self.work(self)
        except BaseException as error:  # raised in the caller; the loop continues
            self.error = without_cause(error) if isinstance(error, REFUSALS) else error
        self.task = None  # so that the caller's thread does not free the task
        self.done = True
        self.wake()
        if self.left:
            self.undo_result()

    def undo_result(self) -> None:
        """Undo a result without a receiver. On the loop."""
        if self.undo and self.error is None:
            current().spawn(self.undo(self.value))

    def result(self) -> T:
        """Return the value of the work, or raise its error."""
        if self.error is None:
            return self.value  # type: ignore[no-any-return]  # result of `work`
        error, self.error = self.error, None  # the traceback holds this frame
        try:
            raise error
        finally:
            del error


class LoopThread:
    """The event loop, its thread, and the worker threads for blocking functions."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.loop = asyncio.SelectorEventLoop(self.poller)
        self.loop.set_exception_handler(_log_failure)
        self.thread = 0
        """Thread identifier; 0 before the start."""
        self.left: deque[Call[Any]] = deque()
        """Calls whose callers have left."""
        self.has_ended = False
        """True once the loop has stopped at the program's exit."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timers: dict[float, Timer] = {}
        self._closings: list[Callable[[], Coroutine[Any, Any, object]]] = []
        self._workers = WorkerThreads(self)
        self._begun = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._ended.acquire()

    def start(self) -> None:
        """Start the thread, if not running.

        Raises:
            TerminalError: The thread could not be started.
        """
        if self.thread:
            return
        try:
            _thread.start_new_thread(self.main, ())
        except RuntimeError as error:
            raise TerminalError(f"no thread can be started: {error}") from error

    def main(self) -> None:
        """Run the loop; the main function of the thread."""
        if not self._begun.acquire(False):
            return  # a second thread: the starter was interrupted, or had not seen the first run yet
        self.thread = _thread.get_ident()
        threading.current_thread().name = "hermes-loop"
        asyncio.set_event_loop(self.loop)
        try:
            while not self._has_run():
                pass
        finally:
            self.has_ended = True
            self.poller.wake_others()
            self._ended.release()

    def _has_run(self) -> bool:
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised by a callback, and not handled by asyncio
            log.exception("the loop thread met a fault")
            return False
        return True

    @property
    def is_current(self) -> bool:
        """True in the loop thread."""
        return self.thread == _thread.get_ident()

    # On the loop.

    def spawn(self, work: Coroutine[Any, Any, T], context: Context | None = None) -> asyncio.Task[T]:
        """Start a coroutine as a task, referenced until done."""
        task = self.loop.create_task(work, context=context)
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Reference a task until done; the program's exit waits for the task."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def timer(self, seconds: float) -> Timer:
        """Return the shared timer of a delay in seconds, see `Timer`. For a small number of distinct delays."""
        return self._timers.get(seconds) or self._timers.setdefault(seconds, Timer(self.loop, seconds))

    def at_end(self, closing: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Register a coroutine function for the program's exit, after all tasks, such as to close a client."""
        self._closings.append(closing)

    def run_lookups_on_workers(self) -> None:
        """Run asyncio's host lookups on our worker threads: its own threads end before the callbacks of `atexit`."""
        from concurrent.futures import ThreadPoolExecutor  # needed by few clients

        class Executor(ThreadPoolExecutor):
            def submit(_, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: N805, ANN401
                return self.spawn(self.in_worker(partial(function, *args, **kwargs)))

        self.loop.set_default_executor(Executor())

    async def in_worker(self, work: Callable[..., T], *args: object) -> T:
        """Run a blocking function on a worker thread, in the task's context. Once cancelled, it goes on alone."""
        return await self._workers.run(work, *args)

    def begin(self, call: Call[Any]) -> None:
        """Start the work of a call, unless its caller has left."""
        if self.left:
            self.abandon()
        if not call.left:
            call.task = self.loop.create_task(call.run(), context=call.context)

    def abandon(self) -> None:
        """Cancel the work of calls whose callers have left."""
        while self.left:
            call = self.left.popleft()
            if call.left:
                continue
            call.left = True
            if call.pieces is not None:
                call.pieces.drop()
            if call.done:
                call.undo_result()
            elif call.task:
                self._keep(call.task)
                call.task.cancel()

    # In any thread.

    def soon(self, callback: Callable[..., object], *args: object) -> None:
        """Call a function on the loop soon. Does nothing once the loop has ended."""
        self.poller.submit(callback, *args)

    def leave(self, call: Call[Any]) -> None:
        """Leave a call and cancel its work."""
        self.left.append(call)
        self.soon(self.abandon)

    def stop(self) -> None:
        """Stop the loop after its tasks have ended, within `STOP_LIMIT` seconds."""
        if self.thread:
            self.soon(self._begin_wind_down)
            self._ended.acquire(timeout=STOP_LIMIT + CLOSE_LIMIT * (1 + len(self._closings)))

    def _begin_wind_down(self) -> None:
        self.abandon()
        self.spawn(self._wind_down())

    async def _wind_down(self) -> None:
        deadline = time.monotonic() + STOP_LIMIT
        me = asyncio.current_task()
        while (others := self._tasks - {me}) and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(others, timeout=left)
        for closing in self._closings:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_LIMIT):
                    await closing()
        self.loop.stop()


class WorkerThreads:
    """Worker threads for blocking functions, created on demand.

    The number is unlimited: a function may wait for a coroutine that needs another worker. Workers are daemons and
    outlive the callbacks of `atexit`, unlike the threads of `concurrent.futures`: containers are removed in `atexit`.
    """

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._numbers = itertools.count(1)
        self._idle: list[WorkerThread] = []
        """A heap by creation order: the oldest worker is reused first, so that the newest become idle and end."""

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run a function, see `LoopThread.in_worker`."""
        answer: asyncio.Future[T] = self._thread.loop.create_future()
        worker = heapq.heappop(self._idle) if self._idle else self._new()
        worker.job = (copy_context(), work, args, answer)
        worker.is_idle = False
        worker.wake.release()
        return await answer

    def _new(self) -> WorkerThread:
        worker = WorkerThread(self, next(self._numbers))
        try:
            worker.start()
        except RuntimeError as error:
            raise TerminalError(f"no thread can be started: {error}") from error
        return worker

    def ended(
        self, worker: WorkerThread, answer: asyncio.Future[Any], value: object, error: BaseException | None
    ) -> None:
        """Store the outcome of a function. On the loop."""
        heapq.heappush(self._idle, worker)
        if worker.number > KEPT_WORKERS:
            self._thread.loop.call_later(IDLE_LIMIT, self._end_idle, worker)
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        elif isinstance(error, StopIteration):  # refused by futures
            answer.set_exception(RuntimeError(f"a function raised {error!r}"))
        else:
            answer.set_exception(error)

    def _end_idle(self, worker: WorkerThread) -> None:
        if worker in self._idle and time.monotonic() - worker.idle_since >= IDLE_LIMIT - 0.1:
            self._idle.remove(worker)
            heapq.heapify(self._idle)
            worker.wake.release()  # ends without a job

    def report(
        self, worker: WorkerThread, answer: asyncio.Future[Any], value: object, error: BaseException | None
    ) -> None:
        """Schedule `ended` on the loop. In the worker's thread."""
        self._thread.soon(self.ended, worker, answer, value, error)


class WorkerThread(threading.Thread):
    """One worker thread, waiting for its next function."""

    def __init__(self, workers: WorkerThreads, number: int) -> None:
        super().__init__(name=f"hermes-worker-{number}", daemon=True)
        self._workers = workers
        self.number = number
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.job: tuple[Context, Callable[..., Any], tuple[Any, ...], asyncio.Future[Any]] | None = None
        self.idle_since = 0.0
        self.is_idle = False
        """True while waiting for the next function."""

    def __lt__(self, other: WorkerThread) -> bool:
        return self.number < other.number

    def run(self) -> None:
        while True:
            self.wake.acquire()
            if self.job is None:  # woken to end
                return
            (context, work, args, answer), self.job = self.job, None
            value, error = None, None
            try:
                value = context.run(work, *args)
            except BaseException as raised:  # raised where the future is awaited
                error = raised
            self.idle_since, self.is_idle = time.monotonic(), True
            self._workers.report(self, answer, value, error)
            del context, work, args, answer, value, error


def _log_failure(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("the loop thread met a fault: %s", context.get("message"), exc_info=context.get("exception") or False)


_making = _thread.allocate_lock()
_current: LoopThread | None = None
_parent_loops: list[LoopThread | None] = []
"""Referenced forever in a forked child: collecting a parent's loop would remove descriptors from the parent's epoll."""


def current() -> LoopThread:
    """Return the loop thread of this process, started by the first call."""
    global _current  # noqa: PLW0603  # one loop thread a process
    if _current is None or not _current.thread:
        with _making:
            if _current is None:
                _current = LoopThread()
            _current.start()
    return _current


def in_worker(work: Callable[..., T], *args: object) -> Coroutine[Any, Any, T]:
    """Run a blocking function on a worker thread, see `LoopThread.in_worker`."""
    return current().in_worker(work, *args)


def spawn(work: Coroutine[Any, Any, T], *, may_fail: bool = False) -> asyncio.Task[T]:
    """Start a coroutine as a task of the loop, see `LoopThread.spawn`.

    Args:
        work: The coroutine.
        may_fail: True to log no error, for a task whose waiter may be gone.
    """
    task = current().spawn(work)
    if may_fail:
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def shielded(future: asyncio.Future[T]) -> T:
    """Wait for a shared future. Cancelling the wait does not cancel the future."""
    if not future.done():
        await asyncio.wait((future,))
    return future.result()


async def done_within(future: asyncio.Future[Any], seconds: float) -> bool:
    """Wait for a shared future at most `seconds`, and return True if done."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done()


def run(work: Callable[[Call[T]], Awaitable[T]], on_piece: Callable[[Any, bytes], object] | None = None) -> T:
    """Run work on the loop and wait for its result. Any exception in this thread meanwhile cancels the work.

    Args:
        work: A coroutine function.
        on_piece: Callback in this thread for each piece of output and each progress report.

    Raises:
        TerminalError: Called on the loop thread, which would deadlock; or at the program's exit; or no thread can be
            started.
    """
    thread = current()
    if thread.is_current:
        raise TerminalError("a blocking call was made on the loop thread")
    bell = _thread.allocate_lock()
    bell.acquire()

    def wake() -> None:
        if bell.locked():  # released by the loop only
            bell.release()

    call = Call(work, _thread.get_ident(), wake, on_piece is not None)
    try:
        thread.soon(thread.begin, call)
        while True:
            ended, done = thread.has_ended, call.done  # read before the pieces, so that no last piece is missed
            if call.pieces and on_piece:
                try:
                    with calling_back(call):
                        _deliver(thread, call.pieces, on_piece)
                except Exception:  # raised by the callback; ends the work first
                    thread.leave(call)
                    while not (call.done or thread.has_ended or thread in _parent_loops):
                        bell.acquire(True, SLICE)
                    raise
            elif done and call.error is None:
                return call.value  # type: ignore[no-any-return]  # no exception can intervene: the call would be left
            elif done:
                break
            elif ended or thread in _parent_loops:
                raise TerminalError(AT_EXIT if ended else FORKED)
            else:
                bell.acquire(True, SLICE)
    except BaseException:
        thread.left.append(call)  # a single C call, unlike `leave`: no second exception can precede it
        thread.soon(thread.abandon)
        raise
    return call.result()


def calling_back(call: Call[Any]) -> holding[tuple[Call[Any], ...]]:
    """Return a block that runs a call's callback. Calls inside skip the lock of the call's own session."""
    return holding(callback_of, (*callback_of.get(), call))


def waits_for(work: Callable[..., Awaitable[Any]]) -> Callable[[_Method], _Method]:
    """Mark a blocking method with the coroutine function of its work, so that a task can await the same work.

    Args:
        work: A coroutine function with the parameters `self`, the call, and those of the method.
    """

    def mark(method: _Method) -> _Method:
        method.work = work  # type: ignore[attr-defined]  # of a function
        return method

    return mark


class ProcessBound(Protocol):
    """An object usable by its own process only."""

    def check_process(self) -> None:
        """Raise TerminalError in any other process."""


_Thing = TypeVar("_Thing", bound=ProcessBound)


def on_loop(work: Callable[Concatenate[_Thing, _P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Thing, _P], T]:
    """Return a blocking method that runs a coroutine function on the loop, see `waits_for`."""

    async def checked(self: _Thing, _: Call[T], /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        self.check_process()
        return await work(self, *args, **kwargs)

    @waits_for(checked)
    @wraps(work)
    def method(self: _Thing, /, *args: _P.args, **kwargs: _P.kwargs) -> T:
        self.check_process()
        return run(lambda _: work(self, *args, **kwargs))

    return method


async def run_async(method: Callable[_P, T], *args: _P.args, **kwargs: _P.kwargs) -> T:
    """Await the work of a bound method, or call a plain blocking method on a worker thread. On the loop."""
    work = work_of(method)
    if work is None:
        return await in_worker(partial(method, *args, **kwargs))
    result: T = await work(None, *args, **kwargs)
    return result


async def value_of(thing: object, name: str) -> Any:  # noqa: ANN401
    """Return a property's value, awaited as by `run_async`."""
    if work := getattr(getattr(type(thing), name).fget, "work", None):
        return await work(thing, None)
    return await in_worker(getattr, thing, name)


def work_of(method: Callable[..., object]) -> Callable[..., Awaitable[Any]] | None:
    """Return the coroutine function behind a bound method, see `waits_for`; None for a plain blocking method."""
    work = getattr(method, "work", None)
    return partial(work, method.__self__) if work else None  # type: ignore[attr-defined]  # a bound method


def _deliver(thread: LoopThread, pieces: OutputQueue, on_piece: Callable[[Any, bytes], object]) -> None:
    taken = 0
    for channel, data in pieces.pop_all():
        taken += len(data)
        on_piece(channel, data)
    thread.soon(pieces.acknowledge, taken)


def _forget() -> None:
    global _current, _making
    _parent_loops.append(_current)
    _current, _making = None, _thread.allocate_lock()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _stop() -> None:
    if _current is not None:
        _current.stop()
