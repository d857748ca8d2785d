"""The driver of a batch: assigns tasks to the workers of an engine, retries failed starts, and writes results."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from hermes_env.batch.engine import Engine, Permit, ReportingEngine
from hermes_env.batch.journal import Journal, MemoryJournal
from hermes_env.batch.progress import BatchProgress, Rate, Stop
from hermes_env.batch.result import Result, Status, failed
from hermes_env.batch.task import Task, TaskId
from hermes_env.batch.task_queue import Places, TaskQueue, TaskReader

ATTEMPTS = 3
"""Attempts of a task that could not begin, or that was lost and may run again."""
FIRST_FAILURES, LATER_FAILURES = 3, 20
"""Tasks in a row with the same failure to start an environment until the batch is aborted: before any task has begun,
and after."""
REPORT_INTERVAL, TICK = 0.1, 1.0
"""Smallest and largest number of seconds between two progress reports."""
READER_PATIENCE = 1.0
"""Seconds to wait at the end for a task still being read."""
_AHEAD, _AHEAD_OF_LIMITS = 64, 1000
"""Smallest number of tasks to read ahead; the latter with limits, to find tasks for other places."""
_AT_ONCE = 256
"""Largest number of results per write."""
_CHANGING = re.compile(r"[0-9a-f]{8,}|\d+")
"""The varying part of an error, such as the id of a container."""

_log = logger(__name__)


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """The options of a driver."""

    workers: int
    """The largest number of tasks at once."""
    budget: float = math.inf
    """Seconds from the begin of the first task until the batch ends: no task begins, and running tasks are ended."""
    retries_lost: bool = False
    """True if a lost task runs again."""
    total: int | None = None
    """The number of tasks without a result; None if unknown."""
    on_result: Callable[[Result], object] | None = None
    """Receives each written result."""
    progress: Callable[[BatchProgress], object] | None = None
    """Receives the progress."""


class FailedStarts:
    """Counts the tasks in a row with the same failure to start an environment.

    Args:
        workers: The number of tasks that a fault may hit at once.
    """

    def __init__(self, workers: int) -> None:
        self._most = max(LATER_FAILURES, 3 * workers)
        self._has_begun = False
        self._kind = ""
        self._tasks: set[TaskId] = set()

    def begun(self) -> None:
        """Reset the count after a start that succeeded."""
        self._has_begun = True
        self._tasks.clear()

    def failed(self, task: TaskId, error: str) -> bool:
        """Count a failed task by id, and return True if the batch should be aborted."""
        kind = _CHANGING.sub("#", error)
        if kind != self._kind:
            self._kind = kind
            self._tasks.clear()
        self._tasks.add(task)
        return len(self._tasks) >= (self._most if self._has_begun else FIRST_FAILURES)


class Driver:
    """Runs a batch in the calling thread of `run`, because file writes and the user's callbacks may block.

    Args:
        tasks: The tasks.
        journal: Keeps the results.
        places: Returns the places of a task, for limits.
        queue: Holds the tasks that have not begun.
        engine: Runs the tasks.
        options: The options.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        journal: Journal | MemoryJournal,
        places: Callable[[Task], Places],
        queue: TaskQueue,
        engine: Engine,
        options: DriverOptions,
    ) -> None:
        self._journal = journal
        self._places = places
        self._queue = queue
        self._engine = engine
        self._options = options
        self._reports_begins = isinstance(engine, ReportingEngine)
        if isinstance(engine, ReportingEngine):
            engine.begins = self._post(self._begins)
        self._beginning: list[tuple[Task, Permit]] = []
        """Tasks with a ready environment, and their permits."""
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        ahead = max(2 * options.workers, _AHEAD_OF_LIMITS if queue.has_limits else _AHEAD)
        self._reader = TaskReader(tasks, journal.done, ahead, self._post(self._found), self._post(self._read))
        self._has_more = True
        self._source_error: BaseException | None = None
        self._unused = iter(range(options.workers))
        """Workers without any task so far: `workers` may be far above the number of tasks."""
        self._free: list[int] = []
        self._running: dict[int, tuple[Task, Places]] = {}
        self._attempts: Counter[TaskId] = Counter()
        self._starts = FailedStarts(options.workers)
        self._results: list[Result] = []
        """Unwritten results."""
        self._unbegun: list[TaskId] = []
        self._is_stopping = self._is_interrupted = False
        self.stopped: Stop | None = None
        """The reason for an early end."""
        self.counts: Counter[Status] = Counter()
        """The results, by status."""
        self._began = time.monotonic()
        self._deadline = math.inf
        self._rate = Rate(self._began)
        self._reported_at = 0.0

    def interrupt(self) -> None:
        """End the batch: no further task begins, and running tasks are interrupted. Callable from any thread."""
        self._events.put(partial(self._stop, "interrupted"))

    @property
    def passed_over(self) -> Counter[Status]:
        """The number of tasks with an earlier result, by status."""
        return self._reader.passed_over

    @property
    def has_seen_all(self) -> bool:
        """True once all tasks were read and have begun."""
        return not self._has_more and not self._queue and self._source_error is None

    def run(self) -> None:
        """Run the batch to the end.

        Raises:
            EnvironmentStartError: No environment starts.
            TerminalError: Results cannot be written.
            Exception: An exception of the iterable of tasks. The tasks read before have ended.
        """
        self._reader.begin()
        try:
            while self._running or self._may_begin:
                self._begin_tasks()
                self._handle_events()
            self._write()
        except BaseException:
            self._abort()
            raise
        finally:
            self._reader.close(READER_PATIENCE)
        self._report_progress(always=True)
        if self._source_error:
            raise self._source_error

    @property
    def _may_begin(self) -> bool:
        return not self._is_stopping and (self._has_more or bool(self._queue))

    # The begin of tasks.

    def _begin_tasks(self) -> None:
        begun: list[tuple[int, Task, Places]] = []
        room = self._options.workers - len(self._running)
        while len(begun) < room and not self._is_stopping and (found := self._queue.next()):
            begun.append((self._free.pop() if self._free else next(self._unused), *found))
        if begun and not self._reports_begins:
            self._mark([task for _, task, _ in begun])
        for worker, task, places in begun:
            self._running[worker] = task, places
            if task.id not in self._attempts:
                self._reader.make_room()
            try:
                self._engine.start(worker, task, self._post(self._ended))
            except Exception as error:  # an engine of the user
                self._events.put(partial(self._ended, worker, failed(task.id, error, began=False)))

    def _mark(self, tasks: Iterable[Task]) -> None:
        """Mark tasks as begun. The budget counts from the first."""
        self._journal.begin([task.id for task in tasks])
        self._deadline = min(self._deadline, time.monotonic() + self._options.budget)

    def _begins(self, task: Task, permit: Permit) -> None:
        self._starts.begun()  # the environment has started, though the task may take long
        self._beginning.append((task, permit))

    def _let_begin(self) -> None:
        """Mark the tasks with a ready environment, and let them begin."""
        beginning, self._beginning = self._beginning, []
        may_begin = False
        try:
            if beginning and not self._is_stopping:
                self._mark(task for task, _ in beginning)
                may_begin = True
        finally:
            for _, permit in beginning:
                permit(may_begin)

    # Events.

    def _post(self, method: Callable[..., None]) -> Callable[..., None]:
        """Return a function that schedules a method in the driver's thread."""

        def post(*args: object) -> None:
            self._events.put(partial(method, *args))

        return post

    def _handle_events(self) -> None:
        """Wait for an event, then write new results."""
        now = time.monotonic()
        if now >= self._deadline and not self._is_stopping:
            self._stop("budget")
        left = self._deadline - now if not self._is_stopping else math.inf
        with contextlib.suppress(Empty):
            self._events.get(timeout=max(0.0, min(left, TICK)))()
            for _ in range(_AT_ONCE):  # bounded, because workers wait for tasks
                self._events.get_nowait()()
        self._let_begin()
        self._write()
        self._report_progress()

    def _found(self, task: Task) -> None:
        self._queue.add(task, self._places(task))

    def _read(self, error: BaseException | None) -> None:
        self._has_more = False
        self._source_error = error  # raised once all tasks before the error have ended

    def _stop(self, why: Stop) -> None:
        if self.stopped is None:
            self.stopped = why
        self._is_stopping = True
        if not self._is_interrupted:
            self._is_interrupted = True
            self._reader.stop()
            self._engine.interrupt()

    def _ended(self, worker: int, result: Result) -> None:
        task, places = self._running.pop(worker)
        self._free.append(worker)
        self._queue.ended(places)
        if result.began:
            self._starts.begun()
            if result.status == "lost" and self._options.retries_lost and self._may_retry(task):
                self._requeue(task)
            else:
                self._results.append(result)
        elif self._is_stopping:
            self._unbegun.append(task.id)
        else:
            self._start_failed(task, result)

    def _start_failed(self, task: Task, result: Result) -> None:
        error = result.error or "the task could not begin"
        if self._starts.failed(task.id, error):
            self._unbegun.append(task.id)
            raise EnvironmentStartError(f"the batch is aborted, as no environment starts: {error}")
        if self._may_retry(task):
            self._unbegun.append(task.id)
            self._requeue(task)
        else:
            self._results.append(result)

    def _may_retry(self, task: Task) -> bool:
        self._attempts[task.id] += 1
        return self._attempts[task.id] < ATTEMPTS and not self._is_stopping

    def _requeue(self, task: Task) -> None:
        self._queue.add(task, self._places(task))

    # Results and progress.

    def _write(self) -> None:
        unbegun, self._unbegun = self._unbegun, []
        self._journal.withdraw(unbegun)
        self._journal.add(self._results)  # the list is emptied only after the write succeeded
        results, self._results = self._results, []
        self.counts.update(result.status for result in results)
        for result in results:
            self._attempts.pop(result.id, None)
            if self._options.on_result:
                self._safely(self._options.on_result, result)

    def _report_progress(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if self._options.progress is None or (now - self._reported_at < REPORT_INTERVAL and not always):
            return
        self._reported_at = now
        done = self.counts.total()
        rate = self._rate.at(now, done)
        left = None if self._options.total is None else max(0, self._options.total - done)
        self._safely(
            self._options.progress,
            BatchProgress(
                self._options.total,
                done,
                done - self.counts["success"],
                len(self._running),
                now - self._began,
                rate,
                left / rate if left is not None and rate else None,
            ),
        )

    def _safely(self, callback: Callable[..., object], value: object) -> None:
        try:
            callback(value)
        except Exception:
            _log.exception("a callback of the batch failed; later calls still happen")

    def _abort(self) -> None:
        """End the running tasks, and write their results if possible."""
        self._stop("interrupted")
        while self._running:
            with contextlib.suppress(TerminalError):
                self._events.get()()
                self._let_begin()
        with contextlib.suppress(TerminalError):
            self._write()
