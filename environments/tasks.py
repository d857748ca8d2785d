"""Environments by task: created or found by task id, reused, and cleaned up when idle."""

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
"""Arguments of `create_environment` apart from settings, such as `approve`."""


class TaskSettings:
    """Named arguments of `create_environment`; `backend` or `env` names the backend.

    Args:
        given: The arguments; None means unset.

    Raises:
        SettingsError: The backend is not text.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        found = {name: value for name, value in given.items() if value is not None}
        self.hooks: Mapping[str, Any] = {name: found.pop(name) for name in _HOOKS & found.keys()}
        """The arguments apart from settings, such as `approve`."""
        backend = found.pop("backend") if "backend" in found else found.pop("env", None)
        if backend is not None and not isinstance(backend, str):
            raise SettingsError(f"backend: it should be the name of a backend, and is a {type(backend).__name__}")
        self._backend = backend
        self._settings = found

    def arguments(self) -> dict[str, Any]:
        """Return all arguments for `create_environment`."""
        backend = {} if self._backend is None else {"backend": self._backend}
        return {**backend, **self._settings, **self.hooks}

    def loaded(self) -> EnvironmentSettings:
        """Return all settings, including `config.yaml` and variables. Raises the errors of `load_settings`."""
        return load_settings(self._backend, **self._settings)

    def over(self, others: TaskSettings) -> dict[str, Any]:
        """Return these arguments, merged over others, for `create_environment`.

        Raises:
            SettingsError: A setting is given under two names, or the backend is unknown.
        """
        backend = others._backend if self._backend is None else self._backend
        under = with_full_names(backend if others._backend is None else others._backend, others._settings)
        settings = {**under, **with_full_names(backend, self._settings)}
        return TaskSettings({**settings, **others.hooks, **self.hooks, "backend": backend}).arguments()

    def differing(self, env: BaseEnvironment) -> list[str]:
        """Return the names of the settings that differ from those of an environment.

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
    """Return a backend setting's name without prefix, and any other name unchanged."""
    short = name.removeprefix(settings.own.prefix)
    return short if name != short and hasattr(settings.own, short) else name


def _value(settings: EnvironmentSettings, name: str) -> object:
    """Return a setting by its full name; None for a setting of another backend."""
    short = _short(settings, name)
    return getattr(settings if short == name else settings.own, short, None)


REAP_INTERVAL = 5.0
"""Seconds between checks for idle environments."""

_log = logger(__name__)
_lock = threading.RLock()
_environments: dict[str, BaseEnvironment] = {}
_making: dict[str, threading.Event] = {}
"""By task, an event that is set after the creation of the environment, successful or not."""
_registered: dict[str, TaskSettings] = {}
_reaper: threading.Thread | None = None
_stop = threading.Event()


def get_environment(task_id: str = "default", **settings: object) -> BaseEnvironment:
    """Return the environment of a task, created on first use.

    The environment is cleaned up after `settings.lifetime_seconds` without use, and at the end of this process.

    Args:
        task_id: Any text; the same text returns the same environment.
        settings: Arguments of `create_environment`, over those of `register_task_settings`; `backend` or `env` names
            the backend. An existing environment must have the same settings. Without settings, any existing environment
            is returned.

    Returns:
        The environment of the task.

    Raises:
        SettingsError: A setting is unknown, its value is not allowed, or the task's environment has another value.
        UnsupportedError: The backend does not support a setting.
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
        others.wait()  # short: creation starts no target
    if differing := asked.differing(env):
        raise SettingsError(
            f"the environment of task {task_id!r} has another {', '.join(differing)}; call "
            f"cleanup_environment({task_id!r}) first, or give this one another task_id"
        )
    return env


def _made(task_id: str, asked: TaskSettings, done: threading.Event) -> BaseEnvironment:
    """Create an environment outside of the lock, so that other tasks do not wait."""
    try:
        registered = _registered.get(task_id)
        env = create_environment(task_id=task_id, **(asked.over(registered) if registered else asked.arguments()))
        with _lock:
            if _making.get(task_id) is done:  # False in a child forked meanwhile
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

    They override `config.yaml` and variables, and are overridden by the arguments of `get_environment`. An existing
    environment keeps its settings.

    Args:
        task_id: The task.
        settings: As for `get_environment`; validated on creation of the environment.
    """
    _registered[task_id] = TaskSettings(settings)


def clear_task_settings(task_id: str) -> None:
    """Remove the registered settings of a task, if any."""
    _registered.pop(task_id, None)


def cleanup_environment(task_id: str = "default") -> None:
    """Clean up the environment of a task, if any. Registered settings stay."""
    with _lock:
        env = _environments.pop(task_id, None)
    if env:
        env.cleanup()


def cleanup_all() -> None:
    """Clean up all environments. An error is logged, and the next environment follows."""
    for task_id in list(_environments):
        with _logged(task_id):
            cleanup_environment(task_id)


@contextlib.contextmanager
def _logged(task_id: str) -> Iterator[None]:
    """Log an error of a cleanup."""
    try:
        yield
    except Exception as error:  # an external backend may raise anything
        _log.warning("the environment of task %r could not be cleaned up: %s", task_id, type(error).__name__)


def _ensure_reaper() -> None:
    global _reaper  # noqa: PLW0603 - one reaper for the process, started with the first environment
    if _reaper is None:
        _reaper = threading.Thread(target=_reap, name="hermes-idle-reaper", daemon=True)
        _reaper.start()
        atexit.register(cleanup_all)


def _forget() -> None:
    """Reset the state in a forked child: environments and reaper thread belong to the parent."""
    global _lock, _reaper  # noqa: PLW0603 - only a thread of the parent could release the lock
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
