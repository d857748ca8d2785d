"""The engine of a batch: runs its tasks, in this process or on a cluster."""

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
"""Python code that works on a task in an environment. It returns text, a mapping of fields of the result, or what
`execute` or `execute_code` returns."""
Settings = str | EnvironmentSettings | Mapping[str, object] | None
"""A backend's name, settings as `load_settings` returns them, or arguments of `create_environment` with `backend`."""
Done = Callable[[int, Result], None]
"""Receives the number of a worker and the result of its task, in any thread. It returns at once."""
Go = Callable[[bool], object]
"""Receives whether a task may begin, in the driver's thread. It returns at once."""


class Engine(Protocol):
    """Runs tasks on workers, which are numbered from 0. A worker has one task at a time.

    Only the driver of a batch calls it, from one thread.
    """

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Have a free worker begin a task, and return at once.

        Args:
            worker: Its number.
            task: The task.
            done: Called once, when the task has ended in any way. A task whose end is not known, such as after the loss
                of its target, has status `lost`; one that has not begun has `began` false.
        """

    def interrupt(self) -> None:
        """End the tasks that run, and return at once. Each calls its `done`, with status `interrupted`.

        The same holds for tasks that are started later.
        """

    def close(self) -> None:
        """Remove everything that the engine has started. It may be called at any time, and twice."""


@runtime_checkable
class PunctualEngine(Engine, Protocol):
    """An engine that reports when a task begins, as its environment may start slowly.

    A task of another engine counts as begun from `start` on, and is lost if this process is killed meanwhile.
    """

    begins: Callable[[Task, Go], object]
    """Set by the driver. The engine calls it, in any thread, just before a task begins. Then it waits for the call of
    the second argument: with True the task begins, with False it ends as one that has not begun."""


def at_once(_: Task, go: Go) -> None:
    """Let a task begin: the value of `begins` without a driver."""
    go(True)


@dataclass(frozen=True, slots=True)
class Plan:
    """The arguments of an engine."""

    workers: int
    """The number of tasks that run at once at most."""
    settings: Settings = None
    """The settings of environments, for tasks without settings of their own; None is what is configured."""
    work: Work | None = None
    """The Python code that works on the tasks; None is their own command or script."""
    timeout: float | None = None
    """Time limit in seconds of tasks that have none; None leaves it to settings."""
    uses: int = 1
    """The number of tasks that one environment is used for."""
    address: str | None = None
    """The address of a cluster, in the format of the engine."""
    resources: Mapping[str, float | str] = field(default_factory=dict)
    """Resources of a cluster that an environment takes, and its placement, by names of the engine."""


ENGINES = {
    "threads": "hermes_env.batch.local_engine:LocalEngine",
    "ray": "hermes_env.batch.ray.engine:RayEngine",
}
"""Engines by name. Each is made with a `Plan`."""


def make_engine(engine: str | Callable[[Plan], Engine], plan: Plan) -> Engine:
    """Return an engine.

    Args:
        engine: A name of `ENGINES`, or a function that makes one.
        plan: Its arguments.

    Raises:
        SettingsError: There is no engine of that name.
        MissingExtraError: It needs a library that is not installed.
    """
    if callable(engine):
        return engine(plan)
    if engine not in ENGINES:
        names = ", ".join(ENGINES)
        raise SettingsError(f"there is no engine {engine!r}{closest(str(engine), ENGINES)}; there are: {names}")
    module, _, name = ENGINES[engine].partition(":")
    made: Engine = getattr(import_module(module), name)(plan)
    return made
