"""Tasks on a Ray cluster: an actor for each worker, anywhere in it, holds an environment."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from environments.errors import EnvironmentStartError, TerminalError
from hermes_env.batch.engine import Done, Go, Plan, at_once
from hermes_env.batch.kinds import Kinds
from hermes_env.batch.ray_cluster import Cluster, placement, ray_library
from hermes_env.batch.ray_host import BatchHost
from hermes_env.batch.ray_losses import lost_task, no_actor
from hermes_env.batch.ray_making import making_of, setup_of
from hermes_env.batch.result import Result
from hermes_env.batch.task import Task
from hermes_env.batch.work_result import failed, not_begun

ATTEMPTS = 3
"""How often a task is tried whose actor was lost before the task began."""
FAILURES = 5
"""Actors in a row that may fail to start, while there is no other, before that is told."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Seconds until an actor is asked for again, after the first that failed, and at most."""
CLOSED_IN = 60.0
"""Seconds that all actors have to remove their environments. Those of the others are removed behind them."""
_THREADS = 3
"""Calls of an actor at once: of a task, `interrupt` and `close`."""


@dataclass(eq=False, slots=True)
class _Job:
    """A task that was given to a worker."""

    worker: int
    task: Task
    done: Done
    attempts: int = 0
    """How many actors were lost before it began."""


@dataclass(eq=False, slots=True)
class _Actor:
    """One actor."""

    handle: Any
    job: _Job | None = None
    """What it works on."""


class RayEngine:
    """Actors on a Ray cluster that each hold an environment, see `Engine`.

    A task goes to any actor that is free, and begins once that says that the task's environment is ready: until then
    it can be given to another one. An actor that is lost is replaced, where Ray finds room for it.

    Args:
        plan: What is to be run, on how many workers, and where.

    Raises:
        SettingsError: Settings, address or resources are not in order.
        EnvironmentStartError: The cluster cannot be joined.
        MissingExtraError: Ray, or the backend's client library, is not installed.
    """

    def __init__(self, plan: Plan) -> None:
        self._ray: Any = ray_library()
        self._workers = plan.workers
        self._kinds = Kinds(plan.settings)
        self._cluster = Cluster(plan.address)
        try:
            self._setup = setup_of(plan, self._kinds.base)
            options = placement(plan.resources, self._cluster.nodes)
        except BaseException:
            self._cluster.leave()
            raise
        self._class = self._ray.remote(BatchHost).options(max_concurrency=_THREADS, **options)
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._waiting: deque[_Job] = deque()
        self._starting: set[_Actor] = set()
        self._idle: list[_Actor] = []
        self._busy: set[_Actor] = set()
        self._closing: set[_Actor] = set()
        self._failures = 0
        self._may_start_at = 0.0
        self._is_interrupted = False
        self._is_closing = False
        self._is_over = False
        self.begins: Callable[[Task, Go], object] = at_once
        """See `PunctualEngine`."""
        self._thread = threading.Thread(target=self._loop, name="hermes-batch-ray", daemon=True)
        self._thread.start()

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Have a worker begin a task, see `Engine`."""
        self._events.put(partial(self._take, _Job(worker, task, done)))

    def interrupt(self) -> None:
        """End what runs, see `Engine`."""
        self._events.put(self._interrupt)

    def close(self) -> None:
        """Remove all environments and actors, and leave the cluster, see `Engine`."""
        if not self._thread.is_alive():
            return
        self._events.put(self._close)
        self._thread.join()
        self._cluster.leave()

    # All below is done in the engine's own thread: Ray's must not wait, and the driver has others to look after.

    def _loop(self) -> None:
        while not self._is_over:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            try:
                event = self._events.get(timeout=wait)
            except Empty:
                event = heapq.heappop(self._timers)[2]
            event()

    def _at(self, moment: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (moment, next(self._numbers), event))

    def _then(self, reference: Any, event: Callable[..., None], actor: _Actor) -> None:  # noqa: ANN401  # Ray's
        """Have an event when a call of an actor has ended: with what it returned, and what it raised."""

        def ended(future: Any) -> None:  # noqa: ANN401
            error = future.exception()
            self._events.put(partial(event, actor, None if error else future.result(), error))

        reference.future().add_done_callback(ended)

    # Tasks, which wait for an actor, are prepared, and run.

    def _take(self, job: _Job) -> None:
        if self._is_interrupted:
            job.done(job.worker, not_begun(job.task.id))
            return
        self._waiting.append(job)
        self._give_out()

    def _give_out(self) -> None:
        while self._waiting and self._idle:
            self._prepare(self._idle.pop(), self._waiting.popleft())
        while self._may_start:
            self._start_actor()

    def _prepare(self, actor: _Actor, job: _Job) -> None:
        try:
            kind = self._kinds.of(job.task)
            making = making_of(kind) if kind.is_own else None
        except TerminalError as error:
            self._idle.append(actor)
            job.done(job.worker, failed(job.task.id, error, began=False))
            return
        actor.job = job
        self._busy.add(actor)
        self._then(actor.handle.prepare.remote(job.task, making), self._prepared, actor)

    def _prepared(self, actor: _Actor, result: Result | None, error: Exception | None) -> None:
        if error:
            self._lost_before(actor, error)
        elif result:
            self._ended(actor, result)
        elif actor.job:
            self.begins(actor.job.task, lambda may_begin: self._events.put(partial(self._begin, actor, may_begin)))

    def _begin(self, actor: _Actor, may_begin: bool) -> None:
        if actor.job:
            call = actor.handle.run if may_begin else actor.handle.leave
            self._then(call.remote(actor.job.task), self._ran, actor)

    def _ran(self, actor: _Actor, result: Result | None, error: Exception | None) -> None:
        if result:
            self._ended(actor, result)
        else:
            name = actor.job.task.id if actor.job else ""
            self._ended(actor, lost_task(name, error), is_lost=True)

    def _lost_before(self, actor: _Actor, error: Exception) -> None:
        job = actor.job
        if job is None:
            return
        job.attempts += 1
        if job.attempts >= ATTEMPTS or self._is_interrupted:
            self._ended(actor, failed(job.task.id, no_actor(error), began=False), is_lost=True)
        else:
            self._drop(actor)
            self._waiting.appendleft(job)
            self._give_out()

    def _ended(self, actor: _Actor, result: Result, *, is_lost: bool = False) -> None:
        job, actor.job = actor.job, None
        if is_lost:
            self._drop(actor)
        else:
            self._busy.discard(actor)
            self._idle.append(actor)
        if job:
            job.done(job.worker, result)
        self._give_out()
        if self._is_closing:
            self._end_if_closed()

    # Actors, which start, and may be lost.

    @property
    def _may_start(self) -> bool:
        count = len(self._starting) + len(self._idle) + len(self._busy)
        wanted = len(self._waiting) > len(self._starting) and count < self._workers
        return wanted and not self._is_interrupted and time.monotonic() >= self._may_start_at

    def _start_actor(self) -> None:
        actor = _Actor(self._class.remote(self._setup))
        self._starting.add(actor)
        self._then(actor.handle.ready.remote(), self._started, actor)

    def _started(self, actor: _Actor, problem: str | None, error: Exception | None) -> None:
        if actor not in self._starting:
            return
        self._starting.discard(actor)
        if error or problem:
            self._drop(actor)
            self._start_failed(EnvironmentStartError(problem) if problem else no_actor(error))
        else:
            self._failures = 0
            self._idle.append(actor)
            self._give_out()

    def _start_failed(self, error: EnvironmentStartError) -> None:
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures)
        self._failures += 1
        self._may_start_at = time.monotonic() + delay
        self._at(self._may_start_at, self._give_out)
        if self._failures >= FAILURES and not (self._idle or self._busy):
            waiting, self._waiting = self._waiting, deque()
            for job in waiting:
                job.done(job.worker, failed(job.task.id, error, began=False))

    def _drop(self, actor: _Actor) -> None:
        """Have done with an actor. One that Ray cannot reach may be there all the same, and goes when it can."""
        for actors in (self._starting, self._busy, self._closing):
            actors.discard(actor)
        self._ray.kill(actor.handle)

    # The end.

    def _interrupt(self) -> None:
        if self._is_interrupted:
            return
        self._is_interrupted = True
        while self._waiting:
            job = self._waiting.popleft()
            job.done(job.worker, not_begun(job.task.id))
        for actor in self._busy:
            actor.handle.interrupt.remote()

    def _close(self) -> None:
        self._is_closing = True
        self._interrupt()
        for actor in tuple(self._starting):
            self._drop(actor)
        self._closing = {*self._busy, *self._idle}
        for actor in self._closing:
            self._then(actor.handle.close.remote(), self._closed, actor)
        self._at(time.monotonic() + CLOSED_IN, self._end)
        self._end_if_closed()

    def _closed(self, actor: _Actor, _: None, __: Exception | None) -> None:
        self._closing.discard(actor)
        self._end_if_closed()

    def _end_if_closed(self) -> None:
        if not self._closing and not self._busy:
            self._end()

    def _end(self) -> None:
        for actor in tuple(self._busy):
            job, actor.job = actor.job, None
            if job:
                job.done(job.worker, lost_task(job.task.id, None))
        for actor in (*self._busy, *self._idle):
            self._drop(actor)
        self._is_over = True
