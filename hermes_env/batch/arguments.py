"""Checks of what `run_batch` is given, before anything is read or started."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, TypeVar

from environments.errors import TerminalError
from hermes_env.batch.engine import Work
from hermes_env.batch.result import STATUSES, Status

Retry = Literal["never", "always"]
Value = TypeVar("Value")
_ALWAYS: frozenset[Status] = frozenset(("lost", "interrupted"))
"""What `retry="always"` runs again."""


def checked_retry(retry: Retry | Collection[Status]) -> frozenset[Status]:
    """Return the statuses of results whose tasks run again.

    Raises:
        TypeError: It is neither text nor statuses.
        ValueError: There is no such status.
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
        TerminalError: It is one that stands for no file.
    """
    if out is None:
        return None
    path = os.fsdecode(out)
    if path in ("", "-"):
        raise TerminalError(f"results cannot go to {path!r}; give a file, by which a later run knows what is done")
    return Path(path)


def check_calls(**called: object) -> None:
    """Raise TypeError unless each argument is None or can be called."""
    for name, value in called.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is of type {type(value).__name__}; give a function")


def checked_work(work: object) -> Work:
    """Return Python code that can be called as `work(env, task)`. Raises TypeError if it cannot."""
    if not callable(work):
        raise TypeError(f"work is of type {type(work).__name__}; give a function")
    try:
        signature = inspect.signature(work)
    except (TypeError, ValueError):  # Python cannot tell, as of some that are written in C
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
    """Return names and values, none for None. Raises TypeError if it is no mapping."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is of type {type(value).__name__}; give a mapping of names to numbers")
    return value or {}
