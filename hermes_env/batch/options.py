"""Checks of the arguments of `run_batch`, and the function that `--work` names."""

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
    """Return the settings of the environments with those that were given as keyword arguments.

    Raises:
        SettingsError: The settings are an object of `load_settings`, and there are keyword arguments.
    """
    if not more:
        return settings
    if isinstance(settings, EnvironmentSettings):
        raise SettingsError(
            f"argument {next(iter(more))}: settings is what load_settings has returned, which has all settings; give "
            "it to load_settings"
        )
    given = settings if isinstance(settings, Mapping) else {"backend": settings}
    return {**given, **more}


def checked_retry(retry: Retry | Collection[Status]) -> frozenset[Status]:
    """Return the statuses of results whose tasks run again.

    Raises:
        TypeError: It is neither text nor a collection.
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
        TypeError: It is no path.
        TerminalError: The path names no file.
    """
    if out is None:
        return None
    path = os.fsdecode(out)
    if path in ("", "-"):
        raise TerminalError(f"results cannot go to {path!r}; give a file, by which a later run knows what is done")
    return Path(path)


def check_calls(**called: object) -> None:
    """Raise TypeError unless each argument is None or callable."""
    for name, value in called.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is of type {type(value).__name__}; give a function")


def checked_work(work: object) -> Work:
    """Return a function that can be called as `work(env, task)`. Raises TypeError if it cannot."""
    if not callable(work):
        raise TypeError(f"work is of type {type(work).__name__}; give a function")
    try:
        signature = inspect.signature(work)
    except (TypeError, ValueError):  # some functions written in C have none
        return work
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise TypeError(f"work cannot be called as work(env, task): {error}") from None
    return work


def check_interrupt(interrupt: object) -> None:
    """Raise TypeError unless it is an event, or None."""
    if interrupt is not None and not callable(getattr(interrupt, "is_set", None)):
        raise TypeError(f"interrupt is of type {type(interrupt).__name__}; give a threading.Event")


def checked_mapping(name: str, value: Mapping[str, Value] | None) -> Mapping[str, Value]:
    """Return a mapping, an empty one for None. Raises TypeError if it is none."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a mapping of names to numbers")
    return value or {}


def work_named(name: str) -> Work:
    """Import a function for `run_batch`. Installed modules go before those of the current directory.

    Args:
        name: `module:function`.

    Raises:
        SettingsError: There is no such function, its module cannot be imported, or it cannot be called as
            `work(env, task)`.
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
        said = f"{type(error).__name__}: {error}"
        raise SettingsError(f"--work {name}: {module} cannot be imported: {said}") from error
