"""One environment for each task: got or made by its id, reused, and cleaned up when it has long been idle."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator

from environments.base import BaseEnvironment
from environments.factory import create_environment
from environments.log import logger

REAP_INTERVAL = 5.0
"""Seconds between looks for idle environments."""

_log = logger(__name__)
_lock = threading.RLock()
_environments: dict[str, BaseEnvironment] = {}
_reaper: threading.Thread | None = None
_stop = threading.Event()


def get_environment(task_id: str = "default") -> BaseEnvironment:
    """Return the environment of a task, made from the settings when it has none yet.

    It is cleaned up when nothing has used it for `settings.lifetime_seconds`, and at the end of this process.

    Args:
        task_id: Any text; the same text gets the same environment.

    Raises:
        SettingsError: The settings are not in order.
    """
    with _lock:
        env = _environments.get(task_id)
        if env is None:
            env = _environments[task_id] = create_environment(task_id=task_id)
            _ensure_reaper()
        env.touch()
        return env


def cleanup_environment(task_id: str = "default") -> None:
    """Clean up the environment of a task, if it has one."""
    with _lock:
        env = _environments.pop(task_id, None)
    if env:
        env.cleanup()


def cleanup_all() -> None:
    """Clean up every environment. What one of them raises is logged, and the others follow."""
    for task_id in list(_environments):
        with _logged(task_id):
            cleanup_environment(task_id)


@contextlib.contextmanager
def _logged(task_id: str) -> Iterator[None]:
    """Log what is raised: there are others to be seen to."""
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
    """In a forked child: what was made is the parent's, and so is the thread that looks after it."""
    global _lock, _reaper  # noqa: PLW0603 - both may be in a state that only the parent can get them out of
    _lock = threading.RLock()
    _reaper = None
    _environments.clear()


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
