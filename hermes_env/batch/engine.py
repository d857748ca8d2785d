"""The engine of a batch: runs tasks on workers, in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, runtime_checkable

from environments.base import BaseEnvironment
from environments.errors import SettingsError
from environments.settings import EnvironmentSettings
from environments.validation import closest
from hermes_env.batch.result import Result
from hermes_env.batch.task import Task

Work = Callable[[BaseEnvironment, Task], object]
"""Python code that works on a task in an environment. Returns text, a mapping of fields of the result, or a result of
`execute` or `execute_code`."""
Settings = str | EnvironmentSettings | Mapping[str, object] | None
"""A backend's name, settings from `load_settings`, or arguments of `create_environment` with `backend`."""
Done = Callable[[int, Result], None]
"""Receives the number of a worker and the result of the task, in any thread. Returns at once."""
Permit = Callable[[bool], object]
"""Receives True if a task may begin, in the driver's thread. Returns at once."""


class Engine(Protocol):
    """Runs tasks on workers, numbered from 0. A worker has one task at a time.

    Only the driver of a batch calls the methods, from one thread.
    """

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Start a task on a free worker, and return at once.

        Args:
            worker: The number of the worker.
            task: The task.
            done: Called once, after the end of the task. A task with an unknown end, such as after the loss of the
                target, has status `lost`; a task that has not begun has `began` false.
        """

    def interrupt(self) -> None:
        """End the running tasks, and return at once. Each task calls `done` with status `interrupted`.

        The same holds for tasks started later.
        """

    def close(self) -> None:
        """Remove everything that the engine has started. Safe to call at any time, and twice."""


@runtime_checkable
class ReportingEngine(Engine, Protocol):
    """An engine that reports the begin of a task, because an environment may start slowly.

    A task of any other engine counts as begun from `start` on, and is lost if this process is killed meanwhile.
    """

    begins: Callable[[Task, Permit], object]
    """A callback set by the driver. The engine calls `begins`, in any thread, just before a task begins, then waits
    for the call of the permit: with True the task begins, with False the task ends as not begun."""


def at_once(_: Task, permit: Permit) -> None:
    """Let a task begin: the value of `begins` without a driver."""
    permit(True)


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of an engine."""

    workers: int
    """The largest number of tasks at once."""
    settings: Settings = None
    """The settings of environments; a task's own settings override them. None is the configuration."""
    work: Work | None = None
    """The Python code that works on the tasks; None runs the tasks' commands and scripts."""
    timeout: float | None = None
    """Default time limit of a task in seconds; None is the limit of the settings."""
    uses: int = 1
    """The number of tasks per environment."""
    address: str | None = None
    """The address of a cluster, in the format of the engine."""
    resources: Mapping[str, float | str] = field(default_factory=dict)
    """Cluster resources per environment, and the placement, by names of the engine."""


ENGINES = {
    "threads": "hermes_env.batch.local_engine:LocalEngine",
    "ray": "hermes_env.batch.ray.engine:RayEngine",
}
"""Engines by name. The only argument of each is a `Plan`."""


def make_engine(engine: str | Callable[[Plan], Engine], plan: Plan) -> Engine:
    """Return an engine.

    Args:
        engine: A name of `ENGINES`, or a function that makes an engine.
        plan: The arguments of the engine.

    Raises:
        SettingsError: The name is unknown.
        MissingExtraError: A library of the engine is not installed.
    """
    if callable(engine):
        return engine(plan)
    if engine not in ENGINES:
        names = ", ".join(ENGINES)
        raise SettingsError(f"there is no engine {engine!r}{closest(str(engine), ENGINES)}; there are: {names}")
    module, _, name = ENGINES[engine].partition(":")
    made: Engine = getattr(import_module(module), name)(plan)
    return made
