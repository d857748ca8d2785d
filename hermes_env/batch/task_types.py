"""The task types of a batch: tasks with the same settings share a pool of environments."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from environments.errors import SettingsError, TerminalError
from environments.registry import backend_settings_class
from environments.settings import EnvironmentSettings
from environments.sources import load_settings, with_full_names
from environments.tasks import TaskSettings
from hermes_env.batch.engine import Settings
from hermes_env.batch.task import Task, TaskError

_KEPT = 1000
"""The size of the cache of types."""


@dataclass(frozen=True, eq=False)
class TaskType:
    """The type of all tasks with the same settings."""

    settings: EnvironmentSettings | Mapping[str, Any]
    """Settings, or arguments of `create_environment`."""
    loaded: EnvironmentSettings
    """All settings."""
    is_own: bool
    """True if the tasks have their own settings."""

    @property
    def places(self) -> tuple[str, ...]:
        """The names of possible limits: the backend, and `backend:host`."""
        found = [self.loaded.env]
        for name, own in ((self.loaded.env, self.loaded.own), (self.loaded.over, self.loaded.own_over)):
            if name and (host := getattr(own, "host", None)):
                found.append(f"{name}:{host}")
        return tuple(found)


class TaskTypes:
    """The task types of a batch. Thread-safe.

    Args:
        base: The settings of the batch.

    Raises:
        SettingsError: A setting is wrong.
        UnsupportedError: The backend does not support a setting.
        MissingExtraError: The backend's client library is not installed.
    """

    def __init__(self, base: Settings) -> None:
        self._base = base if isinstance(base, EnvironmentSettings) else TaskSettings(_arguments(base))
        arguments = self._base if isinstance(self._base, EnvironmentSettings) else self._base.arguments()
        self.base = TaskType(arguments, _loaded(arguments), is_own=False)
        """The type of tasks without their own settings."""
        self._known: dict[str, TaskType] = {}
        self._lock = threading.Lock()

    @property
    def backends(self) -> set[str]:
        """The names of the backends of the tasks so far."""
        with self._lock:
            return {each.loaded.env for each in (self.base, *self._known.values())}

    def of(self, task: Task) -> TaskType:
        """Return the type of a task; the same object for the same settings.

        Raises:
            TaskError: A setting of the task is wrong.
        """
        if not task.settings:
            return self.base
        key = json.dumps(task.settings, sort_keys=True, default=repr)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._own(task)
                if len(self._known) >= _KEPT:
                    self._known.pop(next(iter(self._known)))
                self._known[key] = found
            return found

    def _own(self, task: Task) -> TaskType:
        try:
            own = TaskSettings(task.settings)
            if isinstance(self._base, EnvironmentSettings):
                settings: EnvironmentSettings | dict[str, Any] = _replaced(self._base, own)
            else:
                settings = own.over(self._base)
            return TaskType(settings, _loaded(settings), is_own=True)
        except TerminalError as error:
            raise TaskError(f"the settings of task {task.id!r:.50} are wrong: {error}") from error


def _arguments(base: str | Mapping[str, object] | None) -> Mapping[str, object]:
    if base is None or isinstance(base, str):
        return {"backend": base}
    if not isinstance(base, Mapping):
        raise SettingsError(
            f"settings is of type {type(base).__name__}; give a backend's name, a mapping of arguments of "
            "create_environment, or settings from load_settings"
        )
    return base


def _loaded(settings: EnvironmentSettings | Mapping[str, Any]) -> EnvironmentSettings:
    loaded = settings if isinstance(settings, EnvironmentSettings) else TaskSettings(settings).loaded()
    backend_settings_class(loaded.env).of(loaded).check(loaded)
    return loaded


def _replaced(base: EnvironmentSettings, own: TaskSettings) -> EnvironmentSettings:
    """Return loaded settings, overridden by a task's own settings."""
    arguments = {name: value for name, value in own.arguments().items() if name not in own.hooks}
    backend = arguments.pop("backend", base.env)
    given = with_full_names(backend, arguments)
    loaded = load_settings(backend, **given)
    general = {field.name for field in fields(base)} - {"env", "own", "own_over", "default_limits"}
    changed = {name: getattr(loaded, name) for name in general & given.keys()}
    if backend != base.env:
        return replace(base, env=loaded.env, over=loaded.over, own=loaded.own, own_over=loaded.own_over, **changed)
    prefix = base.own.prefix
    of_backend = {name.removeprefix(prefix): None for name in given if prefix and name.startswith(prefix)}
    kept = replace(base.own, **{name: getattr(loaded.own, name) for name in of_backend})
    return replace(base, own=kept, **changed)
