"""The actor of a batch: a process on a node of a Ray cluster, with an environment. Each worker has an actor."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from environments import Pool
from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import TerminalError
from environments.extras import DISTRIBUTION
from environments.loop import run
from hermes_env.batch.engine import Work
from hermes_env.batch.ray.cleanup import cancel_cleanup, schedule_cleanup
from hermes_env.batch.ray.setup import EnvironmentSpec, Setup, configured, installed_version, unpickled
from hermes_env.batch.result import Result, failed, not_begun
from hermes_env.batch.task import Task
from hermes_env.batch.task_run import run_task

_STARTED_WITH = Path("/proc/self/environ")
"""The environment variables at the start of this process."""


class BatchActor:
    """Runs tasks one after another. The driver calls the methods, some of them concurrently.

    Args:
        setup: The batch.
    """

    def __init__(self, setup: Setup) -> None:
        # Ray blocks SIGINT in its processes; a task's processes on this machine would inherit the mask.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _drop_variables_of_ray()
        self._setup = setup
        self._work: Work | None = None
        self._pool: Pool | None = None
        self._lease = ExitStack()
        self._env: BaseEnvironment | None = None
        self._scope = CancelScope()
        self._is_interrupted = False
        self._cleanup: int | None = None

    def ready(self) -> str:
        """Return an empty text, or the reason if no task can run here."""
        here = installed_version()
        if here != self._setup.version:
            return (
                f"{socket.gethostname()} has version {here or 'unknown'} of {DISTRIBUTION}, and the driver "
                f"{self._setup.version}; install the same on all nodes"
            )
        try:
            found = configured()
            for name, wanted in self._setup.sections.items():
                if found[name] != wanted:
                    return (
                        f"the section {name} of config.yaml on {socket.gethostname()} differs from the driver's; use "
                        "the same file on all nodes"
                    )
            self._work = unpickled(self._setup.work) if self._setup.work else None
            self._cleanup = schedule_cleanup()
        except Exception as error:  # the import of a user's module may raise anything
            return f"{socket.gethostname()} cannot work on tasks: {type(error).__name__}: {error}"
        return ""

    def prepare(self, task: Task, own: EnvironmentSpec | None) -> Result | None:
        """Start an environment for a task. The task does not begin yet.

        Args:
            task: The task.
            own: The task's own spec of the environment; None is the spec of the batch.

        Returns:
            None, or the result of the task if no environment could be started.
        """
        self._scope = CancelScope()
        if self._is_interrupted:
            return not_begun(task.id)
        spec = own or self._setup.spec
        try:
            with self._scope.active():
                self._env = self._lease.enter_context(self._pool_for(own).environment())
                for name, hook in (unpickled(spec.hooks) if spec.hooks else {}).items():
                    setattr(self._env, name, hook)
        except Exception as error:  # a task always has a result
            self._release()
            return failed(task.id, error, began=False)
        return None

    def run(self, task: Task) -> Result:
        """Run the task in the prepared environment, and return the result."""
        env, setup, scope = self._env, self._setup, self._scope
        try:
            if env is None:
                return not_begun(task.id)
            return run(lambda _: run_task(env, task, work=self._work, timeout=setup.timeout, scope=scope))
        except Exception as error:  # as above
            return failed(task.id, error, began=True)
        finally:
            self._release()

    def withdraw(self, task: Task) -> Result:
        """Release the environment of a task that does not begin after all."""
        self._release()
        return not_begun(task.id)

    def interrupt(self) -> None:
        """Interrupt the running task, and each task started later."""
        self._is_interrupted = True
        self._scope.cancel()

    def close(self) -> None:
        """Remove all environments with their processes."""
        self.interrupt()
        if self._pool:
            self._pool.close()
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None and self._env is None:
            cancel_cleanup(cleanup)

    def _pool_for(self, own: EnvironmentSpec | None) -> Pool:
        spec = own or self._setup.spec
        for name, value in spec.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if own:
            return self._lease.enter_context(Pool(own.settings, max=1))
        if self._pool is None:
            self._pool = Pool(spec.settings, max=1, uses=self._setup.uses)
        return self._pool

    def _release(self) -> None:
        self._env = None
        lease, self._lease = self._lease, ExitStack()
        try:
            lease.close()
        except TerminalError:  # the pool logs the error; orphans are removed after the end of this process
            return


def _drop_variables_of_ray() -> None:
    """Remove environment variables set by Ray for internal use.

    The token is a secret, and Ray has already read the token. The debugger of Ray waits for a client for ever.
    `OMP_NUM_THREADS` limits numeric libraries to a single thread if the actor takes less than a core, though a task may
    use more.
    """
    os.environ.pop("RAY_AUTH_TOKEN", None)
    given = _STARTED_WITH.read_bytes().split(b"\0") if _STARTED_WITH.exists() else []
    names = {variable.partition(b"=")[0] for variable in given}
    for name in ("PYTHONBREAKPOINT", "OMP_NUM_THREADS"):
        is_of_ray = name in os.environ and name.encode() not in names
        if is_of_ray and not (name == "OMP_NUM_THREADS" and _cores() >= 1):
            del os.environ[name]


def _cores() -> float:
    """Return the number of cores assigned to this actor."""
    import ray

    context: Any = ray.get_runtime_context()
    cores: float = context.get_assigned_resources().get("CPU", 0)
    return cores
