"""Checks of the options of `run_batch`, and the import of the `--work` function."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from environments.errors import SettingsError, TerminalError
from environments.settings import EnvironmentSettings
from environments.validation import closest
from hermes_env.batch.engine import Settings, Work
from hermes_env.batch.result import STATUSES, Status

if TYPE_CHECKING:
    from types import ModuleType

Retry = Literal["never", "always"]
Value = TypeVar("Value")
_ALWAYS: frozenset[Status] = frozenset(("lost", "interrupted"))
"""The statuses that `retry="always"` runs again."""


def checked_settings(settings: Settings, more: Mapping[str, object]) -> Settings:
    """Return the settings of the environments, with keyword arguments merged in.

    Raises:
        SettingsError: The settings are an object of `load_settings`, and there are keyword arguments.
    """
    if not more:
        return settings
    if isinstance(settings, EnvironmentSettings):
        raise SettingsError(
            f"argument {next(iter(more))}: settings comes from load_settings, which already has all settings; give "
            "this argument to load_settings"
        )
    given = settings if isinstance(settings, Mapping) else {"backend": settings}
    return {**given, **more}


def checked_retry(retry: Retry | Collection[Status]) -> frozenset[Status]:
    """Return the statuses of tasks to run again.

    Raises:
        TypeError: The value is neither text nor a collection.
        ValueError: A status does not exist.
    """
    if isinstance(retry, str):
        if retry not in ("never", "always"):
            raise ValueError(f"retry is {retry!r}; give 'never', 'always', or a list of statuses")
        return _ALWAYS if retry == "always" else frozenset()
    if not isinstance(retry, Collection):
        raise TypeError(f"retry is of type {type(retry).__name__}; give 'never', 'always', or a list of statuses")
    for status in retry:
        if status not in STATUSES:
            raise ValueError(f"retry names the status {status!r}; there are: {', '.join(STATUSES)}")
    return frozenset(retry)


def checked_out(out: str | os.PathLike[str] | None) -> Path | None:
    """Return the path of the file of results.

    Raises:
        TypeError: The value is no path.
        TerminalError: The path names no file.
    """
    if out is None:
        return None
    path = os.fsdecode(out)
    if path in ("", "-"):
        raise TerminalError(f"results cannot go to {path!r}; give a file, so that a later run can resume")
    return Path(path)


def check_calls(**called: object) -> None:
    """Raise TypeError unless each argument is None or callable."""
    for name, value in called.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is of type {type(value).__name__}; give a function")


def checked_work(work: object) -> Work:
    """Return a function callable as `work(env, task)`. Raises TypeError for any other object."""
    if not callable(work):
        raise TypeError(f"work is of type {type(work).__name__}; give a function")
    try:
        signature = inspect.signature(work)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return work
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise TypeError(f"work cannot be called as work(env, task): {error}") from None
    return work


def check_interrupt(interrupt: object) -> None:
    """Raise TypeError unless the object is an event, or None."""
    if interrupt is not None and not callable(getattr(interrupt, "is_set", None)):
        raise TypeError(f"interrupt is of type {type(interrupt).__name__}; give a threading.Event")


def checked_mapping(name: str, value: Mapping[str, Value] | None) -> Mapping[str, Value]:
    """Return a mapping; an empty mapping for None. Raises TypeError for any other object."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a mapping of names to numbers")
    return value or {}


def work_named(name: str) -> Work:
    """Import a function for `run_batch`. Installed modules have precedence over the current directory.

    Args:
        name: `module:function`.

    Raises:
        SettingsError: The module cannot be imported, or has no function of this name, callable as `work(env, task)`.
    """
    module_name, _, function = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *function.split("."))):
        raise SettingsError(f"--work {name}: give module:function, such as rollouts:work for that in rollouts.py here")
    module = _imported(name, module_name)
    work: object = module
    for part in function.split("."):
        if not hasattr(work, part):
            found = [each for each in vars(module) if callable(getattr(module, each))]
            place = getattr(module, "__file__", None) or "no file"
            raise SettingsError(
                f"--work {name}: {module_name} has no {function}{closest(function, found)}; it is {place}"
            )
        work = getattr(work, part)
    try:
        return checked_work(work)
    except TypeError as error:
        raise SettingsError(f"--work {name}: {error}") from None


def _imported(name: str, module: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        message = f"{type(error).__name__}: {error}"
        raise SettingsError(f"--work {name}: {module} cannot be imported: {message}") from error
