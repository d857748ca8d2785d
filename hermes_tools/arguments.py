"""Checks the types of a tool's arguments against its own annotations."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Union, get_args, get_origin, get_type_hints

_NAMES = {str: "text", int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}


def check_arguments(
    tool: Callable[..., object], signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Check the arguments of a call before the tool is called.

    Args:
        tool: The tool, with annotations.
        signature: Its parameters that the caller gives.
        args: Arguments by position.
        kwargs: Arguments by name.

    Raises:
        TypeError: An argument is missing, unknown or has a wrong type. The message names the argument.
    """
    given = signature.bind(*args, **kwargs).arguments
    hints = _hints(tool)
    for parameter, value in given.items():
        if not _fits(value, hints[parameter]):
            raise TypeError(f"{parameter} must be {_described(hints[parameter])}, not {_kind(value)}")


@functools.cache
def _hints(tool: Callable[..., object]) -> dict[str, object]:
    return get_type_hints(tool)


def _fits(value: object, hint: object) -> bool:
    """Return whether a value has a type. A bool is no number."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:  # the tool lists its values itself
        return any(_fits(value, type(part)) for part in parts)
    if origin is list and isinstance(value, str):  # one text without the list, as models write it
        return True
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(_fits(item, parts[0]) for item in value)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    assert isinstance(hint, type), f"arguments of type {hint} are not checked yet"
    return isinstance(value, hint)


def _described(hint: object) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_described, parts))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type):
        return f"a list of {_described(parts[0])}s"
    assert isinstance(hint, type)
    return _NAMES[hint]


def _kind(value: object) -> str:
    if isinstance(value, list | tuple) and value:
        kinds = dict.fromkeys(type(item).__name__ for item in value)
        return f"{type(value).__name__} of {', '.join(kinds)}"
    return "None" if value is None else type(value).__name__
