"""The actor of a batch: it holds an environment on a node of a Ray cluster. Each worker has one."""

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
from hermes_env.batch.ray.cleanup import nothing_remains, removed_with_this_process
from hermes_env.batch.ray.setup import Making, Setup, configured, installed_version, unpickled
from hermes_env.batch.result import Result, failed, not_begun
from hermes_env.batch.task import Task
from hermes_env.batch.task_run import run_task

_STARTED_WITH = Path("/proc/self/environ")
"""The variables that this process was started with."""


class BatchActor:
    """Runs one task after another. The driver calls its methods, some of them at once.

    Args:
        setup: The batch.
    """

    def __init__(self, setup: Setup) -> None:
        # Ray blocks it in its processes; a task's processes on this machine would inherit that.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _drop_variables_of_ray()
        self._setup = setup
        self._work: Work | None = None
        self._pool: Pool | None = None
        self._lent = ExitStack()
        self._env: BaseEnvironment | None = None
        self._scope = CancelScope()
        self._is_interrupted = False
        self._remains: int | None = None

    def ready(self) -> str:
        """Return an empty text, or the reason why no task can run here."""
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
                        f"the section {name} of config.yaml is another on {socket.gethostname()} than for the driver; "
                        "have the same file on all nodes"
                    )
            self._work = unpickled(self._setup.work) if self._setup.work else None
            self._remains = removed_with_this_process()
        except Exception as error:  # a user's module may raise anything when it is imported
            return f"{socket.gethostname()} cannot work on tasks: {type(error).__name__}: {error}"
        return ""

    def prepare(self, task: Task, own: Making | None) -> Result | None:
        """Make an environment ready for a task, which does not begin yet.

        Args:
            task: The task.
            own: The settings of its environment; None is those of the batch.

        Returns:
            None, or the result of the task if there is no environment.
        """
        self._scope = CancelScope()
        if self._is_interrupted:
            return not_begun(task.id)
        making = own or self._setup.making
        try:
            with self._scope.active():
                self._env = self._lent.enter_context(self._pool_for(own).environment())
                for name, hook in (unpickled(making.hooks) if making.hooks else {}).items():
                    setattr(self._env, name, hook)
        except Exception as error:  # a task always has a result
            self._give_back()
            return failed(task.id, error, began=False)
        return None

    def run(self, task: Task) -> Result:
        """Run the task that an environment is ready for, and return its result."""
        env, setup, scope = self._env, self._setup, self._scope
        try:
            if env is None:
                return not_begun(task.id)
            return run(lambda _: run_task(env, task, work=self._work, timeout=setup.timeout, scope=scope))
        except Exception as error:  # as above
            return failed(task.id, error, began=True)
        finally:
            self._give_back()

    def leave(self, task: Task) -> Result:
        """Give back the environment of a task that does not begin after all."""
        self._give_back()
        return not_begun(task.id)

    def interrupt(self) -> None:
        """Interrupt the task that runs, and each that is started later."""
        self._is_interrupted = True
        self._scope.cancel()

    def close(self) -> None:
        """Remove all environments, and end what runs in them."""
        self.interrupt()
        if self._pool:
            self._pool.close()
        remains, self._remains = self._remains, None
        if remains is not None and self._env is None:
            nothing_remains(remains)

    def _pool_for(self, own: Making | None) -> Pool:
        making = own or self._setup.making
        for name, value in making.variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if own:
            return self._lent.enter_context(Pool(own.settings, max=1))
        if self._pool is None:
            self._pool = Pool(making.settings, max=1, uses=self._setup.uses)
        return self._pool

    def _give_back(self) -> None:
        self._env = None
        lent, self._lent = self._lent, ExitStack()
        try:
            lent.close()
        except TerminalError:  # it is logged, and what is left is removed after the end of this process
            return


def _drop_variables_of_ray() -> None:
    """Remove variables that Ray has set for its own code.

    Its token is a secret, which Ray has read by now. Its debugger waits for a client for ever. `OMP_NUM_THREADS` gives
    numeric libraries one thread where an actor takes less than a core, though a task may take more.
    """
    os.environ.pop("RAY_AUTH_TOKEN", None)
    given = _STARTED_WITH.read_bytes().split(b"\0") if _STARTED_WITH.exists() else []
    names = {variable.partition(b"=")[0] for variable in given}
    for name in ("PYTHONBREAKPOINT", "OMP_NUM_THREADS"):
        is_of_ray = name in os.environ and name.encode() not in names
        if is_of_ray and not (name == "OMP_NUM_THREADS" and _cores() >= 1):
            del os.environ[name]


def _cores() -> float:
    """Return how many cores this actor has asked for."""
    import ray

    context: Any = ray.get_runtime_context()
    cores: float = context.get_assigned_resources().get("CPU", 0)
    return cores
