"""A simulated engine: tasks take the time of real environments, and run no command."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.fleet.costs import Costs, Spread
from hermes_env.batch.engine import Done, Permit, Plan, at_once
from hermes_env.batch.result import Result, interrupted, not_begun
from hermes_env.batch.task import Task, TaskId

FAILING = 0.05
"""The share of tasks with an error."""
OUTPUT = "x" * 200
"""The output of each task."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """The simulated fleet."""

    costs: Costs
    work: Spread
    """Seconds of tasks in their environments."""
    seed: int = 1

    def engine(self, plan: Plan) -> SimulatedEngine:
        """Make the engine for `run_batch`."""
        return SimulatedEngine(plan, self)


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a task, the same in each run."""

    started: float
    """Seconds until the task begins."""
    ended: float
    """Seconds until the task has ended."""
    freed: float
    """Seconds until the worker is free again."""
    result: Result

    @classmethod
    def of(cls, fleet: Fleet, name: TaskId) -> Fate:
        """Return the fate of the task with an id."""
        chance = random.Random(f"{fleet.seed} {name}")  # not secret
        costs = fleet.costs
        started = costs.start.draw(chance)
        if chance.random() < costs.refused:
            refused = Result(name, "error", error="the engine refused to start the environment", began=False)
            return cls(started, started, started, refused)
        taken = fleet.work.draw(chance) + costs.command.draw(chance)
        ended, freed = started + taken, started + taken + costs.removal.draw(chance)
        if chance.random() < costs.lost:
            return cls(started, ended, freed, Result(name, "lost", error="the target was lost", duration_seconds=taken))
        if chance.random() < FAILING:
            return cls(started, ended, freed, Result(name, "error", OUTPUT, 1, taken, "exit code 1"))
        return cls(started, ended, freed, Result(name, "success", OUTPUT, 0, taken))


@dataclass(eq=False, slots=True)
class _Run:
    """A task with its worker."""

    worker: int
    task: Task
    fate: Fate
    done: Done
    has_begun: bool = False


class SimulatedEngine:
    """Reports the end of each task on time, from a single thread, see `ReportingEngine`.

    A worker's next environment waits for the removal of the last, as a pool has no more environments than workers.

    Args:
        plan: The tasks.
        fleet: The times.
    """

    def __init__(self, plan: Plan, fleet: Fleet) -> None:
        self._fleet = fleet
        self._free_at = [0.0] * plan.workers
        self._more = threading.Condition()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._running: dict[int, _Run] = {}
        self._numbers = itertools.count()
        self._is_interrupted = self._is_closed = False
        self.begins: Callable[[Task, Permit], object] = at_once
        """See `ReportingEngine`."""
        self.reported_at: dict[TaskId, float] = {}
        """The time of each report, on the monotonic clock, by the task's id. A reader removes the entry."""
        self.cpu_seconds = 0.0
        """Processor seconds of the engine's own thread."""
        self._thread = threading.Thread(target=self._loop, name="simulated", daemon=True)
        self._thread.start()

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Have a worker begin a task, see `Engine`."""
        with self._more:
            if self._is_interrupted:
                done(worker, not_begun(task.id))
                return
            run = self._running[worker] = _Run(worker, task, Fate.of(self._fleet, task.id), done)
        self._at(max(time.monotonic(), self._free_at[worker]) + run.fate.started, partial(self._ready, run))

    def _ready(self, run: _Run) -> None:
        if run.fate.result.began:
            self.begins(run.task, partial(self._begin, run))
        else:
            self._end(run)

    def _begin(self, run: _Run, may_begin: bool) -> None:
        if not may_begin:
            return  # all tasks are being interrupted
        run.has_begun = True
        now = time.monotonic()
        self._free_at[run.worker] = now + run.fate.freed - run.fate.started
        self._at(now + run.fate.ended - run.fate.started, partial(self._end, run))

    def _end(self, run: _Run) -> None:
        with self._more:
            is_running = self._running.get(run.worker) is run
            self._running.pop(run.worker if is_running else -1, None)
        if is_running:
            self.reported_at[run.task.id] = time.monotonic()
            run.done(run.worker, run.fate.result)

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        with self._more:
            heapq.heappush(self._timers, (moment, next(self._numbers), event))
            if self._timers[0][0] == moment:
                self._more.notify()

    def _loop(self) -> None:
        while not self._is_closed:
            with self._more:
                wait = self._timers[0][0] - time.monotonic() if self._timers else None
                if wait is None or wait > 0:
                    self._more.wait(wait)
                    continue
                event = heapq.heappop(self._timers)[2]
            event()
            self.cpu_seconds = time.thread_time()

    def interrupt(self) -> None:
        """End all tasks, see `Engine`."""
        with self._more:
            self._is_interrupted = True
            running, self._running = self._running, {}
            self._timers.clear()
        for run in running.values():
            name = run.task.id
            run.done(run.worker, interrupted(Result(name, "interrupted")) if run.has_begun else not_begun(name))

    def close(self) -> None:
        """End the thread, see `Engine`."""
        self.interrupt()
        with self._more:
            self._is_closed = True
            self._more.notify()
        self._thread.join()
