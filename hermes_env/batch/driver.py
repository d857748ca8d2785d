"""Hands tasks to the workers of an engine, and has what becomes of them written down."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from hermes_env.batch.engine import Engine, Go, PunctualEngine
from hermes_env.batch.failed_starts import FailedStarts
from hermes_env.batch.limits import Places, Waiting
from hermes_env.batch.rate import Rate
from hermes_env.batch.reader import Reader
from hermes_env.batch.result import Result, Status
from hermes_env.batch.summary import BatchProgress, Stop
from hermes_env.batch.task import Task
from hermes_env.batch.terms import Terms, Writes
from hermes_env.batch.work_result import failed

ATTEMPTS = 3
"""How often a task is tried that could not begin, or that may run again when it was lost."""
TELL_INTERVAL, TICK = 0.1, 1.0
"""Seconds between two reports of progress at the least, and at the most."""
READER_PATIENCE = 1.0
"""Seconds to wait in the end for a task that is being read."""
_AHEAD, _AHEAD_OF_LIMITS = 64, 1000
"""Tasks that are read ahead at least; and where some places are limited, so that the others find work meanwhile."""
_AT_ONCE = 256
"""Results that are written down together at most."""

_log = logger(__name__)


class Driver:
    """Runs a batch. All is done in the thread that calls `run`, which waits for no single task.

    Args:
        tasks: The tasks.
        journal: Writes down which have begun, and their results.
        places: Says where a task is going to run.
        waiting: Takes those that have not begun, and knows the limits.
        engine: Runs them.
        terms: How they are run.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        journal: Writes,
        places: Callable[[Task], Places],
        waiting: Waiting,
        engine: Engine,
        terms: Terms,
    ) -> None:
        self._places = places
        self._engine = engine
        self._journal = journal
        self._terms = terms
        self._says_begin = isinstance(engine, PunctualEngine)
        if isinstance(engine, PunctualEngine):
            engine.begins = self._post(self._begins)
        self._beginning: list[tuple[Task, Go]] = []
        """The tasks that are about to begin, and who waits until that is noted."""
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        ahead = max(2 * terms.workers, _AHEAD_OF_LIMITS if waiting.has_limits else _AHEAD)
        self._reader = Reader(tasks, journal.done, ahead, self._post(self._found), self._post(self._read))
        self._has_more = True
        self._source_error: BaseException | None = None
        self._waiting = waiting
        self._unused = iter(range(terms.workers))
        """Workers that have had no task: there may be more than there will ever be tasks."""
        self._free: list[int] = []
        self._running: dict[int, tuple[Task, Places]] = {}
        self._attempts: Counter[str] = Counter()
        self._starts = FailedStarts(terms.workers)
        self._results: list[Result] = []
        """What has ended, and is not written down yet."""
        self._unbegun: list[str] = []
        self._is_stopping = self._is_interrupted = False
        self.stopped: Stop | None = None
        """Why the batch ended before all was done, if it did."""
        self.counts: Counter[Status] = Counter()
        """The results, by status."""
        self._began = time.monotonic()
        self._deadline = self._began + terms.budget
        self._rate = Rate(self._began)
        self._told = 0.0

    def interrupt(self) -> None:
        """End the batch: no task begins any more, and those that run are interrupted. Any thread may call it."""
        self._events.put(partial(self._stop, "interrupted"))

    @property
    def passed_over(self) -> Counter[Status]:
        """How many tasks had a result, by its status."""
        return self._reader.passed_over

    @property
    def has_seen_all(self) -> bool:
        """Whether all tasks were read, and none is left."""
        return not self._has_more and not self._waiting and self._source_error is None

    def run(self) -> None:
        """Run the batch to its end.

        Raises:
            EnvironmentStartError: No environment can be started.
            TerminalError: What becomes of tasks cannot be written down.
            Exception: What reading the tasks has raised. Those that were read before have ended.
        """
        self._reader.begin()
        try:
            while self._running or self._may_begin:
                self._begin_tasks()
                self._take_in()
            self._write()
        except BaseException:
            self._give_up()
            raise
        finally:
            self._reader.close(READER_PATIENCE)
        self._tell(always=True)
        if self._source_error:
            raise self._source_error

    @property
    def _may_begin(self) -> bool:
        return not self._is_stopping and (self._has_more or bool(self._waiting))

    # What begins.

    def _begin_tasks(self) -> None:
        begun: list[tuple[int, Task, Places]] = []
        room = self._terms.workers - len(self._running)
        while len(begun) < room and not self._is_stopping and (found := self._waiting.next()):
            begun.append((self._free.pop() if self._free else next(self._unused), *found))
        if not self._says_begin:
            self._journal.begin([task.id for _, task, _ in begun])
        for worker, task, places in begun:
            self._running[worker] = task, places
            if task.id not in self._attempts:
                self._reader.taken()
            try:
                self._engine.start(worker, task, self._post(self._ended))
            except Exception as error:  # of an engine of somebody's own
                self._events.put(partial(self._ended, worker, failed(task.id, error, began=False)))

    def _begins(self, task: Task, go: Go) -> None:
        self._starts.begun()  # it has its environment, though its end may be long in coming
        self._beginning.append((task, go))

    def _let_begin(self) -> None:
        """Let the tasks begin whose environments are ready, once that is noted."""
        beginning, self._beginning = self._beginning, []
        may_begin = False
        try:
            if not self._is_stopping:
                self._journal.begin([task.id for task, _ in beginning])
                may_begin = True
        finally:
            for _, go in beginning:
                go(may_begin)

    # What happens.

    def _post(self, method: Callable[..., None]) -> Callable[..., None]:
        """Return what has a method called in the driver's thread."""

        def post(*args: object) -> None:
            self._events.put(partial(method, *args))

        return post

    def _take_in(self) -> None:
        """Wait until something happens, and write down what has come of it."""
        now = time.monotonic()
        if now >= self._deadline and not self._is_stopping:
            self._stop("budget")
        left = self._deadline - now if not self._is_stopping else math.inf
        with contextlib.suppress(Empty):
            self._events.get(timeout=max(0.0, min(left, TICK)))()
            for _ in range(_AT_ONCE):  # and not for as long as more comes: there are workers to be given tasks
                self._events.get_nowait()()
        self._let_begin()
        self._write()
        self._tell()

    def _found(self, task: Task) -> None:
        self._waiting.add(task, self._places(task))

    def _read(self, error: BaseException | None) -> None:
        self._has_more = False
        self._source_error = error  # raised when all that was read before has ended

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
        self._waiting.ended(places)
        if result.began:
            self._starts.begun()
            if result.status == "lost" and self._terms.reruns_lost and self._may_try_again(task):
                self._again(task)
            else:
                self._results.append(result)
        elif self._is_stopping:
            self._unbegun.append(task.id)
        else:
            self._could_not_begin(task, result)

    def _could_not_begin(self, task: Task, result: Result) -> None:
        error = result.error or "it could not be begun"
        if self._starts.failed(task.id, error):
            self._unbegun.append(task.id)
            raise EnvironmentStartError(f"the batch is given up, as no environment starts: {error}")
        if self._may_try_again(task):
            self._unbegun.append(task.id)
            self._again(task)
        else:
            self._results.append(result)

    def _may_try_again(self, task: Task) -> bool:
        self._attempts[task.id] += 1
        return self._attempts[task.id] < ATTEMPTS and not self._is_stopping

    def _again(self, task: Task) -> None:
        self._waiting.add(task, self._places(task))

    # What is written down and told.

    def _write(self) -> None:
        unbegun, self._unbegun = self._unbegun, []
        self._journal.withdraw(unbegun)
        self._journal.add(self._results)  # they are kept until they are written
        results, self._results = self._results, []
        self.counts.update(result.status for result in results)
        for result in results:
            self._attempts.pop(result.id, None)
            if self._terms.on_result:
                self._safely(self._terms.on_result, result)

    def _tell(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if self._terms.progress is None or (now - self._told < TELL_INTERVAL and not always):
            return
        self._told = now
        done = self.counts.total()
        rate = self._rate.at(now, done)
        left = None if self._terms.total is None else max(0, self._terms.total - done)
        self._safely(
            self._terms.progress,
            BatchProgress(
                self._terms.total,
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
            _log.exception("a callback of the batch failed; it is called on")

    def _give_up(self) -> None:
        """End what runs, and write down of it what can be."""
        self._stop("interrupted")
        while self._running:
            with contextlib.suppress(TerminalError):
                self._events.get()()
                self._let_begin()
        with contextlib.suppress(TerminalError):
            self._write()
