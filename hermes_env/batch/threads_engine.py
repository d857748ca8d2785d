"""Tasks on threads of this process, in environments of pools."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue

from environments import Pool
from environments.cancellation import CancelScope
from environments.errors import SettingsError, TerminalError
from hermes_env.batch.engine import Done, Plan, at_once
from hermes_env.batch.kinds import Kind, Kinds
from hermes_env.batch.result import Result
from hermes_env.batch.task import Task
from hermes_env.batch.task_run import run_task
from hermes_env.batch.work_result import failed, not_begun

_CLOSED_AT_ONCE = 16
"""Pools that are closed side by side."""

Job = tuple[Task, Done, CancelScope]


class ThreadsEngine:
    """A thread for each worker, and a pool of environments for each kind of settings, see `Engine`.

    Args:
        plan: What is to be run, and on how many workers.

    Raises:
        SettingsError: The settings are not in order.
        MissingExtraError: The backend's client library is not installed.
    """

    def __init__(self, plan: Plan) -> None:
        if plan.address is not None or plan.resources:
            name = "resources" if plan.address is None else "an address"
            raise SettingsError(f"{name}: the engine 'threads' runs all in this process; give them with engine 'ray'")
        self.begins = at_once
        """See `PunctualEngine`."""
        self._plan = plan
        self._kinds = Kinds(plan.settings)
        self._lock = threading.Lock()
        self._pools: dict[Kind, tuple[Pool, int]] = {}
        """By kind, a pool and how many tasks have need of it."""
        self._threads: dict[int, tuple[threading.Thread, SimpleQueue[Job | None]]] = {}
        self._running: set[CancelScope] = set()
        self._is_interrupted = False

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Have a worker begin a task, see `Engine`."""
        scope = CancelScope()
        with self._lock:
            self._running.add(scope)
            if self._is_interrupted:
                scope.cancel()
        if worker not in self._threads:
            jobs: SimpleQueue[Job | None] = SimpleQueue()
            thread = threading.Thread(
                target=self._work, args=(worker, jobs), name=f"hermes-batch-{worker}", daemon=True
            )
            self._threads[worker] = thread, jobs
            thread.start()
        self._threads[worker][1].put((task, done, scope))

    def _work(self, worker: int, jobs: SimpleQueue[Job | None]) -> None:
        while job := jobs.get():
            task, done, scope = job
            try:
                kind = self._kinds.of(task)
            except TerminalError as error:
                self._ended(scope)
                done(worker, failed(task.id, error, began=False))
                continue
            with self._pool(kind) as pool:
                result = self._result(pool, task, scope)
                self._ended(scope)
                done(worker, result)

    def _ended(self, scope: CancelScope) -> None:
        with self._lock:
            self._running.discard(scope)

    def _result(self, pool: Pool | TerminalError, task: Task, scope: CancelScope) -> Result:
        has_begun = False
        try:
            if isinstance(pool, TerminalError):
                raise pool
            with scope.active(), pool.environment() as env:
                if not self._may_begin(task):
                    return not_begun(task.id)
                has_begun = True
                return run_task(env, task, work=self._plan.work, timeout=self._plan.timeout, scope=scope)
        except BaseException as error:  # whatever it is, the task has to come to an end
            return failed(task.id, error, began=has_begun)

    def _may_begin(self, task: Task) -> bool:
        answer: Future[bool] = Future()
        self.begins(task, answer.set_result)
        return answer.result()

    @contextmanager
    def _pool(self, kind: Kind) -> Iterator[Pool | TerminalError]:
        """Lend the pool of a kind, or what is in its way. One that tasks have asked for goes with the last of them."""
        try:
            with self._lock:
                pool, users = self._pools.get(kind) or (
                    Pool(kind.settings, max=self._plan.workers, uses=self._plan.uses),
                    0,
                )
                self._pools[kind] = pool, users + 1
        except TerminalError as error:
            yield error
            return
        try:
            yield pool
        finally:
            with self._lock:
                users = self._pools[kind][1] - 1
                self._pools[kind] = pool, users
                is_over = kind.is_own and not users
                if is_over:
                    del self._pools[kind]
            if is_over:
                pool.close()

    def interrupt(self) -> None:
        """End what runs, see `Engine`."""
        with self._lock:
            self._is_interrupted = True
            running = list(self._running)
        for scope in running:
            scope.cancel()

    def close(self) -> None:
        """Remove all environments, and end the threads, see `Engine`."""
        self.interrupt()
        for _, jobs in self._threads.values():
            jobs.put(None)
        with self._lock:
            pools = [pool for pool, _ in self._pools.values()]
        with ThreadPoolExecutor(_CLOSED_AT_ONCE, thread_name_prefix="hermes-batch-close") as closing:
            list(closing.map(Pool.close, pools))
        for thread, _ in self._threads.values():
            thread.join()
