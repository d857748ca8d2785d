"""What runs the tasks of a batch: the seam between its driver and threads here, or a cluster."""

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
"""Is told of a worker's number and of what came of its task, in any thread. It returns at once."""


class Engine(Protocol):
    """Runs tasks on workers, which are numbered from 0. A worker has one task at a time.

    Only the driver of a batch calls it, from one thread.
    """

    def start(self, worker: int, task: Task, done: Done) -> None:
        """Have a worker that is free begin a task, and return at once.

        Args:
            worker: Its number.
            task: What to do.
            done: Called once, when the task has ended, however that was. A task whose end is not known, such as when
                its target was lost, has status `lost`; one that certainly did not begin has `began` false.
        """

    def interrupt(self) -> None:
        """End what runs, and return at once. Each task still calls its `done`, with status `interrupted`.

        The same holds for what is started afterwards.
        """

    def close(self) -> None:
        """Remove all that the engine has started. It may be called at any time, and twice."""


Go = Callable[[bool], object]
"""Is told whether a task may begin, in the driver's thread. It returns at once."""


@runtime_checkable
class PunctualEngine(Engine, Protocol):
    """An engine that says itself when a task begins, as its environment may be long in coming.

    A task of another engine counts as begun from `start` on, and is lost if this process is killed meanwhile.
    """

    begins: Callable[[Task, Go], object]
    """Set by the driver. To be called, in any thread, just before any of a task is done. The task may begin, or has to
    end as one that was not begun, when the second argument is called."""


def at_once(_: Task, go: Go) -> None:
    """Have a task begin that nobody has to be told of: what `begins` is without a driver."""
    go(True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an engine has to know of its batch."""

    workers: int
    """How many tasks run at once at most."""
    settings: Settings = None
    """The environments' settings, where a task has none of its own; None is what is configured."""
    work: Work | None = None
    """What works on the tasks; None is their own command or script."""
    timeout: float | None = None
    """Seconds that a task may take that says nothing of it; None leaves it to settings."""
    uses: int = 1
    """How many tasks one environment is used for."""
    address: str | None = None
    """Where a cluster is, in the engine's own words."""
    resources: Mapping[str, float | str] = field(default_factory=dict)
    """What an environment takes of a cluster, and how it is placed there, by name, in the engine's own words."""


ENGINES = {
    "threads": "hermes_env.batch.threads_engine:ThreadsEngine",
    "ray": "hermes_env.batch.ray_engine:RayEngine",
}
"""Engines by name. Each is made with a `Plan`."""


def make_engine(engine: str | Callable[[Plan], Engine], plan: Plan) -> Engine:
    """Return an engine.

    Args:
        engine: A name of `ENGINES`, or what makes one.
        plan: What it has to know.

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
