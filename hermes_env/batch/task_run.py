"""One task, worked on in an environment: the same here and on the machines of a cluster."""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace

from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import EnvironmentStartError, TerminalError
from hermes_env.batch.engine import Work
from hermes_env.batch.result import Result
from hermes_env.batch.task import Task
from hermes_env.batch.work_result import failed, interrupted, not_begun, result_of, timed_out


def run_task(
    env: BaseEnvironment, task: Task, *, work: Work | None, timeout: float | None, scope: CancelScope
) -> Result:
    """Work on a task, and return what came of it, whatever that is.

    Args:
        env: Where. It is started already, or starts with this.
        task: What to do.
        work: What works on it; None is its own command or script.
        timeout: Seconds for a task that says nothing of it; None leaves it to settings.
        scope: Ends the task, as interrupted, when it is cancelled.
    """
    if scope.cancelled:
        return not_begun(task.id)
    began = time.monotonic()
    env.observation.batch_task = task.id
    run = _TaskRun(env, task, timeout if task.timeout is None else task.timeout, scope)
    try:
        with scope.active():
            run.write_files()
            result = result_of(task.id, run.by_itself() if work is None else run.by(work))
    except BaseException as error:  # asyncio's cancellation is no Exception, and ends no more than its task
        result = failed(task.id, error, began=run.has_begun or not isinstance(error, EnvironmentStartError))
        if work and not isinstance(error, TerminalError):
            result = replace(result, output=traceback.format_exc())
    finally:
        env.observation.batch_task = None
    if work and scope.cancelled:
        result = timed_out(result, run.limit) if run.is_over else interrupted(result)
    return replace(result, duration_seconds=time.monotonic() - began)


class _TaskRun:
    """What is done for one task."""

    def __init__(self, env: BaseEnvironment, task: Task, limit: float | None, scope: CancelScope) -> None:
        self._env = env
        self._task = task
        self._scope = scope
        self.limit = math.inf if limit is None else limit
        """Seconds that Python code may take."""
        self._own_limit = limit
        self.has_begun = False
        """Whether anything of it may have been done."""
        self.is_over = False
        """Whether Python code was ended because its time was over."""

    def write_files(self) -> None:
        """Write the task's files."""
        for path, contents in self._task.files.items():
            data = contents.encode("utf-8", "surrogateescape") if isinstance(contents, str) else contents
            self._env.write_bytes(path, data)
            self.has_begun = True

    def by_itself(self) -> object:
        """Run the task's command or script, and return what comes of it."""
        if self._task.command is not None:
            return self._env.execute(self._task.command, timeout=self._own_limit)
        from code_execution import execute_code  # which commands have no need of

        return execute_code(self._task.script or "", env=self._env, timeout=self._own_limit)

    def by(self, work: Work) -> object:
        """Have Python code work on the task, and return what it returns."""
        self.has_begun = True
        with self._limited():
            returned = work(self._env, self._task)
            if not inspect.iscoroutine(returned):
                return returned
            import asyncio  # which takes a tenth of a second to import

            return asyncio.run(returned)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        if self.limit == math.inf:
            yield
            return
        timer = threading.Timer(self.limit, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _end(self) -> None:
        self.is_over = not self._scope.cancelled
        self._scope.cancel()
