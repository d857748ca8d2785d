"""What holds an environment on a node of a Ray cluster: an actor, of which each worker of a batch has one."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from environments import Pool
from environments.base import BaseEnvironment
from environments.cancellation import CancelScope
from environments.errors import TerminalError
from environments.extras import DISTRIBUTION
from environments.settings import EnvironmentSettings
from environments.sources import read_config_section
from hermes_env.batch.engine import Work
from hermes_env.batch.ray_remains import nothing_remains, removed_with_this_process
from hermes_env.batch.result import Result
from hermes_env.batch.task import Task
from hermes_env.batch.task_run import run_task
from hermes_env.batch.work_result import failed, not_begun

SECTIONS = ("approvals", "code_execution", "web")
"""What of `config.yaml` holds where a task runs, and is no setting of its environment."""
_STARTED_WITH = Path("/proc/self/environ")
"""The variables of this process as they were in the beginning."""


def installed_version() -> str:
    """Return the version of this package, empty where it was not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def configured() -> dict[str, dict[str, object]]:
    """Return those sections of `config.yaml` as they are here. Raises SettingsError if it cannot be read."""
    return {name: read_config_section(name)[0] for name in SECTIONS}


@dataclass(frozen=True, slots=True)
class Making:
    """How the environment of a task is made. It can be pickled."""

    settings: EnvironmentSettings
    """All its settings, as they are for the driver."""
    variables: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    """The variables that are passed through, with the values that the driver has."""
    hooks: bytes = field(default=b"", repr=False)
    """What else `create_environment` takes, pickled by Ray."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What an actor has to know of its batch. It can be pickled."""

    version: str
    """The version of this package that the driver has."""
    sections: Mapping[str, Mapping[str, object]] = field(repr=False)
    """What `configured` says for the driver."""
    making: Making
    """How environments are made where a task has no settings of its own."""
    work: bytes = field(repr=False)
    """The Python code that works on tasks, pickled by Ray; empty if there is none."""
    timeout: float | None
    """Seconds for a task that says nothing of it."""
    uses: int
    """How many tasks an environment is used for."""


class BatchHost:
    """Works on one task after the other. Its methods are called by the driver, some of them at once.

    Args:
        setup: What to know of the batch.
    """

    def __init__(self, setup: Setup) -> None:
        # Ray's processes have it blocked, and so would have whatever a task starts on this machine.
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
        """Return nothing, or say why no task can be worked on here."""
        here = installed_version()
        if here != self._setup.version:
            return (
                f"{socket.gethostname()} has version {here or 'unknown'} of {DISTRIBUTION}, and the driver "
                f"{self._setup.version}; install the same on all nodes"
            )
        try:
            for name, wanted in self._setup.sections.items():
                if configured()[name] != wanted:
                    return (
                        f"the section {name} of config.yaml is another on {socket.gethostname()} than for the driver; "
                        "have the same file on all nodes"
                    )
            self._work = _unpickled(self._setup.work) if self._setup.work else None
            self._remains = removed_with_this_process()
        except Exception as error:  # whatever somebody's module raises when it is imported
            return f"{socket.gethostname()} cannot work on tasks: {type(error).__name__}: {error}"
        return ""

    def prepare(self, task: Task, own: Making | None) -> Result | None:
        """Have an environment ready for a task, of which nothing begins yet.

        Args:
            task: The task.
            own: How its environment is made, if not as those of the batch.

        Returns:
            Nothing, or what came of the task if there is no environment.
        """
        self._scope = CancelScope()
        if self._is_interrupted:
            return not_begun(task.id)
        try:
            with self._scope.active():
                self._env = self._lent.enter_context(self._pool_for(own).environment())
                for name, hook in _hooks(own or self._setup.making).items():
                    setattr(self._env, name, hook)
        except Exception as error:  # whatever it is, the task has to come to an end
            self._give_back()
            return failed(task.id, error, began=False)
        return None

    def run(self, task: Task) -> Result:
        """Work on the task that an environment was prepared for, and return what came of it."""
        try:
            if self._env is None:
                return not_begun(task.id)
            setup = self._setup
            return run_task(self._env, task, work=self._work, timeout=setup.timeout, scope=self._scope)
        except Exception as error:  # as above
            return failed(task.id, error, began=True)
        finally:
            self._give_back()

    def leave(self, task: Task) -> Result:
        """Give up the environment that was prepared for a task, which is not begun after all."""
        self._give_back()
        return not_begun(task.id)

    def interrupt(self) -> None:
        """End the task that runs, as interrupted, and all that are begun from now on."""
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
        except TerminalError:  # what it leaves is told by its log, and removed when this process is gone
            return


def _drop_variables_of_ray() -> None:
    """Take out of the environment what tasks are not to find, as none of them is Ray's code.

    Its token is a secret, which Ray has read by now. A debugger of Ray's waits for somebody for ever. Numeric libraries
    get one thread from Ray where an actor takes less than a core, which environments mostly do though what runs in them
    may take more.
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


def _hooks(making: Making) -> Mapping[str, Any]:
    hooks: Mapping[str, Any] = _unpickled(making.hooks) if making.hooks else {}
    return hooks


def _unpickled(data: bytes) -> Any:  # noqa: ANN401  # whatever the user has given
    from ray import cloudpickle

    return cloudpickle.loads(data)
