"""Environments by task: made or found by its id, reused, and cleaned up when they are idle for long."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from environments.base import BaseEnvironment
from environments.errors import SettingsError
from environments.factory import create_environment
from environments.log import logger
from environments.settings import EnvironmentSettings
from environments.sources import load_settings, with_full_names

_HOOKS = frozenset(create_environment.__kwdefaults__ or ())
"""The arguments of `create_environment` that are no settings, such as `approve`."""


class TaskSettings:
    """The arguments of `create_environment`, by name, where `backend` or `env` names the backend.

    Args:
        given: The arguments; None means not set.

    Raises:
        SettingsError: The backend is no text.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        found = {name: value for name, value in given.items() if value is not None}
        self.hooks: Mapping[str, Any] = {name: found.pop(name) for name in _HOOKS & found.keys()}
        """The arguments that are no settings, such as `approve`."""
        backend = found.pop("backend") if "backend" in found else found.pop("env", None)
        if backend is not None and not isinstance(backend, str):
            raise SettingsError(f"backend: it should be the name of a backend, and is a {type(backend).__name__}")
        self._backend = backend
        self._settings = found

    def arguments(self) -> dict[str, Any]:
        """Return all of them for `create_environment`."""
        backend = {} if self._backend is None else {"backend": self._backend}
        return {**backend, **self._settings, **self.hooks}

    def loaded(self) -> EnvironmentSettings:
        """Return all settings, with those of `config.yaml` and of variables. Raises as `load_settings` does."""
        return load_settings(self._backend, **self._settings)

    def over(self, others: TaskSettings) -> dict[str, Any]:
        """Return the arguments of others with these over them, for `create_environment`.

        Raises:
            SettingsError: A setting is given under two names, or the backend is unknown.
        """
        backend = others._backend if self._backend is None else self._backend
        under = with_full_names(backend if others._backend is None else others._backend, others._settings)
        settings = {**under, **with_full_names(backend, self._settings)}
        return TaskSettings({**settings, **others.hooks, **self.hooks, "backend": backend}).arguments()

    def differing(self, env: BaseEnvironment) -> list[str]:
        """Return the names of the settings that an environment has otherwise.

        Raises:
            SettingsError: A setting is unknown, or its value is not allowed.
        """
        if not self.arguments():
            return []
        had, backend = env.settings, self._backend
        if backend is None and load_settings().env != had.env:
            backend = had.env
        names = with_full_names(backend, self._settings)
        wanted = load_settings(backend, **self._settings)
        if wanted.env != had.env:
            return ["sandbox" if backend in (None, had.env) else "backend"]
        if self._backend not in (None, wanted.env) and wanted.own != had.own:  # bubblewrap as local with a sandbox
            return ["sandbox"]
        other = [_short(had, name) for name in names if _value(wanted, name) != _value(had, name)]
        return other + [name for name, hook in self.hooks.items() if getattr(env, name, None) != hook]


def _short(settings: EnvironmentSettings, name: str) -> str:
    """Return the short name of a setting of the backend, and another name as it is."""
    short = name.removeprefix(settings.own.prefix)
    return short if name != short and hasattr(settings.own, short) else name


def _value(settings: EnvironmentSettings, name: str) -> object:
    """Return a setting by its full name; None for one of another backend."""
    short = _short(settings, name)
    return getattr(settings if short == name else settings.own, short, None)


REAP_INTERVAL = 5.0
"""Seconds between looks for idle environments."""

_log = logger(__name__)
_lock = threading.RLock()
_environments: dict[str, BaseEnvironment] = {}
_making: dict[str, threading.Event] = {}
"""By task, an event that is set once its environment is made, or could not be made."""
_registered: dict[str, TaskSettings] = {}
_reaper: threading.Thread | None = None
_stop = threading.Event()


def get_environment(task_id: str = "default", **settings: object) -> BaseEnvironment:
    """Return the environment of a task, and make it when the task has none yet.

    It is cleaned up when nothing has used it for `settings.lifetime_seconds`, and at the end of this process.

    Args:
        task_id: Any text; the same text gets the same environment.
        settings: The arguments of `create_environment`, over those of `register_task_settings`; `backend` or `env`
            names the backend. An environment that is there already must have the same. Without any, it is returned as
            it is.

    Raises:
        SettingsError: A setting is unknown, its value is not allowed, or the task's environment has another one.
        UnsupportedError: The backend cannot do what a setting asks for.
        MissingExtraError: The backend's client library is not installed.
    """
    asked = TaskSettings(settings)
    while True:
        with _lock:
            env = _environments.get(task_id)
            if env is not None:
                env.touch()
                break
            others = _making.get(task_id)
            if others is None:
                ours = _making[task_id] = threading.Event()
        if others is None:
            return _made(task_id, asked, ours)
        others.wait()  # creating starts nothing, so that this is soon over
    if differing := asked.differing(env):
        raise SettingsError(
            f"the environment of task {task_id!r} has another {', '.join(differing)}; call "
            f"cleanup_environment({task_id!r}) first, or give this one another task_id"
        )
    return env


def _made(task_id: str, asked: TaskSettings, done: threading.Event) -> BaseEnvironment:
    """Make an environment, outside of the lock: other tasks do not wait."""
    try:
        registered = _registered.get(task_id)
        env = create_environment(task_id=task_id, **(asked.over(registered) if registered else asked.arguments()))
        with _lock:
            if _making.get(task_id) is done:  # and this is no child that was forked meanwhile
                _environments[task_id] = env
                _ensure_reaper()
        return env
    finally:
        with _lock:
            if _making.get(task_id) is done:
                del _making[task_id]
        done.set()


def register_task_settings(task_id: str, **settings: object) -> None:
    """Register the settings of a task's environment, in place of earlier ones.

    They go over `config.yaml` and variables, and under the arguments of `get_environment`. An environment that is there
    already stays as it is.

    Args:
        task_id: The task.
        settings: As for `get_environment`. They are checked when the environment is made.
    """
    _registered[task_id] = TaskSettings(settings)


def clear_task_settings(task_id: str) -> None:
    """Remove the registered settings of a task, if there are any."""
    _registered.pop(task_id, None)


def cleanup_environment(task_id: str = "default") -> None:
    """Clean up the environment of a task, if it has one. What is registered for the task stays."""
    with _lock:
        env = _environments.pop(task_id, None)
    if env:
        env.cleanup()


def cleanup_all() -> None:
    """Clean up every environment. An error of one is logged, and the others follow."""
    for task_id in list(_environments):
        with _logged(task_id):
            cleanup_environment(task_id)


@contextlib.contextmanager
def _logged(task_id: str) -> Iterator[None]:
    """Log an error of a clean-up."""
    try:
        yield
    except Exception as error:  # a backend installed apart may raise anything
        _log.warning("the environment of task %r could not be cleaned up: %s", task_id, type(error).__name__)


def _ensure_reaper() -> None:
    global _reaper  # noqa: PLW0603 - one for the process, started with the first environment
    if _reaper is None:
        _reaper = threading.Thread(target=_reap, name="hermes-idle-reaper", daemon=True)
        _reaper.start()
        atexit.register(cleanup_all)


def _forget() -> None:
    """Begin anew in a forked child: the environments are the parent's, and so is the reaper's thread."""
    global _lock, _reaper  # noqa: PLW0603 - both may be in a state that only the parent can get them out of
    _lock = threading.RLock()
    _reaper = None
    _environments.clear()
    _making.clear()


os.register_at_fork(after_in_child=_forget)


def _reap() -> None:
    while not _stop.wait(REAP_INTERVAL):
        for task_id, env in list(_environments.items()):
            with _logged(task_id):
                _clean_up_if_idle(task_id, env)


def _clean_up_if_idle(task_id: str, env: BaseEnvironment) -> None:
    with _lock:
        idle = env.idle_seconds > env.settings.lifetime_seconds
        if idle and _environments.get(task_id) is env:
            del _environments[task_id]
    if idle:
        env.cleanup()
