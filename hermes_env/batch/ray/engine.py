"""The engine `ray`: an actor for each worker, on any node of a Ray cluster, with an environment."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from environments.errors import EnvironmentLostError, EnvironmentStartError
from hermes_env.batch.engine import Done, Permit, Plan, ReportingEngine, at_once
from hermes_env.batch.ray.actor import BatchActor
from hermes_env.batch.ray.cluster import Cluster, placement, ray_library
from hermes_env.batch.ray.setup import EnvironmentSpec, setup_of, spec_of
from hermes_env.batch.result import Result, failed, not_begun
from hermes_env.batch.task import Task, TaskId
from hermes_env.batch.task_types import TaskTypes

ATTEMPTS = 3
"""Attempts of a task after the loss of an actor before the task began."""
FAILURES = 5
"""Actors in a row that fail to start, without any other actor, until the waiting tasks fail."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
"""Backoff in seconds after an actor failed to start: the first delay, and the longest."""
CLOSED_IN = 60.0
"""Seconds for all actors to remove their environments. Later the clean-up after the end of an actor does it."""
_CALLS = 3
"""Concurrent calls of an actor: of a task, `interrupt` and `close`."""


class RayEngine(ReportingEngine):
    """Runs tasks on actors of a Ray cluster, see `Engine`.

    A task is assigned to any idle actor, and begins once the environment is ready there. Until then the task can move
    to another actor. Ray places the replacement of a lost actor on any node with free resources.

    Args:
        plan: The batch.

    Raises:
        SettingsError: Settings, address or resources are wrong.
        EnvironmentStartError: The cluster cannot be joined.
        MissingExtraError: Ray, or the backend's client library, is not installed.
    """

    def __init__(self, plan: Plan) -> None:
        self._ray: Any = ray_library()
        self._workers = plan.workers
        self._types = TaskTypes(plan.settings)
        self._cluster = Cluster(plan.address)
        try:
            self._setup = setup_of(plan, self._types.base)
            options = placement(plan.resources, self._cluster.nodes)
        except BaseException:
            self._cluster.leave()
            raise
        self._class = self._ray.remote(BatchActor).options(max_concurrency=_CALLS, **options)
        self._waiting: deque[asyncio.Future[Any]] = deque()
        """The waits for an actor."""
        self._starting: set[Any] = set()
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._failures = 0
        self._may_start_at = 0.0
        self._is_interrupted = False
        self._jobs: set[asyncio.Task[None]] = set()
        """The tasks, and the starts of actors."""
        self.begins: Callable[[Task, Permit], object] = at_once
        """See `ReportingEngine`."""
        # A loop of its own: calls of Ray may block, and must not block the loop thread of environments.
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hermes-batch-ray", daemon=True)
        self._thread.start()

    def start(self, worker: int, task: Task, done: Done) -> None:
        self._loop.call_soon_threadsafe(self._spawn, self._work(worker, task, done))

    def interrupt(self) -> None:
        self._loop.call_soon_threadsafe(self._interrupt)

    def close(self) -> None:
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._cluster.leave()

    # On the engine's own loop: tasks.

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        job = self._loop.create_task(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    async def _work(self, worker: int, task: Task, done: Done) -> None:
        result = _lost_task(task.id, None)  # for a cancelled task, if the actor does not end in time
        try:
            task_type = self._types.of(task)
            result = await self._result(task, spec_of(task_type) if task_type.is_own else None)
        except Exception as error:  # a task always has a result
            result = failed(task.id, error, began=False)
        finally:
            done(worker, result)

    async def _result(self, task: Task, spec: EnvironmentSpec | None) -> Result:
        for attempt in range(1, ATTEMPTS + 1):
            actor = await self._acquired()
            if actor is None:
                break
            try:
                result: Result | None = await _returned(actor.prepare.remote(task, spec))
            except Exception as error:  # Ray's error for a lost actor
                self._drop(actor)
                if attempt == ATTEMPTS or self._is_interrupted:
                    return failed(task.id, _no_actor(error), began=False)
                continue
            try:
                if result is None:
                    call = actor.run if await self._may_begin(task) else actor.withdraw
                    result = await _returned(call.remote(task))
            except Exception as error:
                self._drop(actor)
                return _lost_task(task.id, error)
            self._release(actor)
            return result
        return not_begun(task.id)

    async def _may_begin(self, task: Task) -> bool:
        answer: asyncio.Future[bool] = self._loop.create_future()

        def permit(may_begin: bool) -> None:
            self._loop.call_soon_threadsafe(_answer, answer, may_begin)

        self.begins(task, permit)
        return await answer

    # Actors.

    async def _acquired(self) -> Any:  # noqa: ANN401  # Ray's
        """Wait for an idle actor; None after an interrupt. Raises EnvironmentStartError if no actor starts."""
        if self._is_interrupted:
            return None
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        self._assign()
        return await waiter

    def _assign(self) -> None:
        """Assign idle actors to waiting tasks, and start more actors."""
        while self._waiting and self._idle:
            actor = self._idle.pop()
            self._busy.add(actor)
            self._waiting.popleft().set_result(actor)
        while (
            len(self._waiting) > len(self._starting)
            and len(self._starting) + len(self._idle) + len(self._busy) < self._workers
            and time.monotonic() >= self._may_start_at
        ):
            actor = self._class.remote(self._setup)
            self._starting.add(actor)
            self._spawn(self._start(actor))

    async def _start(self, actor: Any) -> None:  # noqa: ANN401
        try:
            problem = await _returned(actor.ready.remote())
            error = EnvironmentStartError(problem) if problem else None
        except Exception as lost:  # Ray's
            error = _no_actor(lost)
        if actor not in self._starting:  # killed meanwhile
            return
        self._starting.discard(actor)
        if error:
            self._drop(actor)
            self._start_failed(error)
        else:
            self._failures = 0
            self._idle.append(actor)
            self._assign()

    def _start_failed(self, error: EnvironmentStartError) -> None:
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures)
        self._failures += 1
        self._may_start_at = time.monotonic() + delay
        self._loop.call_later(delay + 0.01, self._assign)
        if self._failures >= FAILURES and not (self._idle or self._busy):
            while self._waiting:
                self._waiting.popleft().set_exception(EnvironmentStartError(str(error)))

    def _release(self, actor: Any) -> None:  # noqa: ANN401
        self._busy.discard(actor)
        self._idle.append(actor)
        self._assign()

    def _drop(self, actor: Any) -> None:  # noqa: ANN401
        """Kill an actor. Ray kills an unreachable actor as soon as its node can be reached."""
        self._starting.discard(actor)
        self._busy.discard(actor)
        self._ray.kill(actor)
        self._assign()

    # The end.

    def _interrupt(self) -> None:
        if not self._is_interrupted:
            self._is_interrupted = True
            while self._waiting:
                self._waiting.popleft().set_result(None)
            for actor in self._busy:
                actor.interrupt.remote()

    async def _close(self) -> None:
        self._interrupt()
        for actor in tuple(self._starting):
            self._drop(actor)
        closing = [asyncio.ensure_future(_returned(actor.close.remote())) for actor in (*self._busy, *self._idle)]
        if waits := {*closing, *self._jobs}:
            await asyncio.wait(waits, timeout=CLOSED_IN)
        for job in (late := {*closing, *self._jobs}):
            job.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for actor in (*self._busy, *self._idle):
            self._drop(actor)


def _answer(answer: asyncio.Future[bool], value: bool) -> None:
    if not answer.done():
        answer.set_result(value)


async def _returned(reference: Any) -> Any:  # noqa: ANN401  # Ray's
    """Await a call of an actor."""
    return await asyncio.wrap_future(reference.future())


def _lost_task(name: TaskId, error: Exception | None) -> Result:
    """Return the result of a task that may have run before the loss of the actor, with Ray's error."""
    reason = f": {_message(error)}" if error else ""
    lost = EnvironmentLostError(
        f"the actor that held the environment was lost while the task may have run, so the task was not retried{reason}"
    )
    return failed(name, lost, began=True)


def _no_actor(error: Exception) -> EnvironmentStartError:
    """Return the error for an actor lost before the task began."""
    return EnvironmentStartError(f"the actor for the environment was lost before the task began: {_message(error)}")


def _message(error: Exception) -> str:
    """Return the message of an error of Ray on one line, without internal details."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("class_name:", "actor_id:", "namespace:", "pid:", "ip:"))]
    return " ".join(kept[:3]).partition(" Some common causes ")[0][:300] or type(error).__name__
