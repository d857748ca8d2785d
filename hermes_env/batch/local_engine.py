"""The engine `threads`: runs tasks in this process, in environments leased from pools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from functools import partial

from environments import Pool
from environments.cancellation import CancelScope
from environments.errors import SettingsError
from environments.loop import current, in_worker, run, shielded
from environments.observation.record import Recorder
from hermes_env.batch.engine import Done, Plan, ReportingEngine, at_once
from hermes_env.batch.result import Result, failed, not_begun
from hermes_env.batch.task import Task
from hermes_env.batch.task_run import run_task
from hermes_env.batch.task_types import TaskType, TaskTypes


@dataclass(eq=False, slots=True)
class _SharedPool:
    """A pool, and the number of its users."""

    made: asyncio.Future[Pool]
    users: int = 0


class LocalEngine(ReportingEngine):
    """Runs each task as a coroutine of the loop thread, with a pool for each type of task, see `Engine`.

    Only blocking work has a thread: scripts, Python code, and commands with hooks or observers.

    Args:
        plan: The batch.

    Raises:
        SettingsError: A setting is wrong, the record cannot be written, or a cluster is named.
        MissingExtraError: The backend's client library is not installed.
    """

    def __init__(self, plan: Plan) -> None:
        if plan.address is not None or plan.resources:
            name = "resources" if plan.address is None else "an address"
            raise SettingsError(f"{name}: engine 'threads' runs all tasks in this process; use engine 'ray' for these")
        self.begins = at_once
        """See `ReportingEngine`."""
        self._plan = plan
        self._types = TaskTypes(plan.settings)
        if record := self._types.base.loaded.record:
            Recorder.at(record)  # an unwritable file is an error of the batch, not of each task
        self._scopes: set[CancelScope] = set()
        """The scopes of the running tasks."""
        self._is_interrupted = False
        self._pools: dict[TaskType, _SharedPool] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, worker: int, task: Task, done: Done) -> None:
        scope = CancelScope()
        self._scopes.add(scope)
        if self._is_interrupted:
            scope.cancel()
        current().soon(self._begin, partial(done, worker), task, scope)

    def interrupt(self) -> None:
        # In the driver's thread: cancelling a scope may call the user's code.
        self._is_interrupted = True
        for scope in self._scopes.copy():
            scope.cancel()

    def close(self) -> None:
        self.interrupt()
        run(lambda _: self._close())

    # On the loop thread.

    def _begin(self, done: partial[None], task: Task, scope: CancelScope) -> None:
        # With an empty context, and in a loop that does not keep the program alive.
        working = current().loop.create_task(self._work(done, task, scope), context=Context())
        self._tasks.add(working)
        working.add_done_callback(self._tasks.discard)

    async def _work(self, done: partial[None], task: Task, scope: CancelScope) -> None:
        ended: list[Result] = []

        def end(result: Result) -> None:
            if not ended:
                ended.append(result)
                self._scopes.discard(scope)
                done(result)

        try:
            task_type = self._types.of(task) if not task.settings else await in_worker(self._types.of, task)
            async with self._pool(task_type) as pool:
                end(await self._result(pool, task, scope))
        except BaseException as error:  # a task always has a result
            end(failed(task.id, error, began=False))

    async def _result(self, pool: Pool, task: Task, scope: CancelScope) -> Result:
        with scope.active():
            lease = pool.new_lease(None)
        try:
            with scope.active():
                env = await pool.acquire(lease)
            if not await self._may_begin(task):
                return not_begun(task.id)
            lease.has_begun = True
            return await run_task(env, task, work=self._plan.work, timeout=self._plan.timeout, scope=scope)
        finally:
            pool.release(lease)

    async def _may_begin(self, task: Task) -> bool:
        answer = current().loop.create_future()
        self.begins(task, lambda may_begin: current().soon(answer.set_result, may_begin))
        return bool(await answer)

    @asynccontextmanager
    async def _pool(self, task_type: TaskType) -> AsyncIterator[Pool]:
        """Yield the pool of a type. A pool for a task's own settings is closed after the last such task."""
        shared = self._pools.get(task_type)
        if shared is None:
            make = partial(Pool, task_type.settings, max=self._plan.workers, uses=self._plan.uses)
            shared = self._pools[task_type] = _SharedPool(asyncio.ensure_future(in_worker(make)))
        shared.users += 1
        try:
            yield await shielded(shared.made)
        finally:
            shared.users -= 1
            is_unused = not shared.users and (task_type.is_own or shared.made.exception() is not None)
            if is_unused and self._pools.get(task_type) is shared:
                del self._pools[task_type]
                await _close(shared)

    async def _close(self) -> None:
        """Close the pools with their running tasks, and wait for the tasks' end."""
        while self._pools or self._tasks:
            pools = [self._pools.pop(task_type) for task_type in tuple(self._pools)]
            await asyncio.gather(*map(_close, pools))
            if self._tasks:
                await asyncio.wait(self._tasks)


async def _close(shared: _SharedPool) -> None:
    await asyncio.wait((shared.made,))
    if shared.made.exception() is None:
        await in_worker(shared.made.result().close)
