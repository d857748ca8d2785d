"""Tools for callers: functions without the environment parameter, with arguments checked by type."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from environments.base import BaseEnvironment
from environments.errors import TerminalError

P = ParamSpec("P")
R = TypeVar("R")
_TYPES = {str: "text", int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}


def bound_to(env: BaseEnvironment, tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `tool` as a function for `env`, with the same docstring, and the signature without the environment.

    The function raises TypeError, with the argument's name, if an argument is missing, unknown or of a wrong type.
    """
    return _bound(tool, lambda: env, for_model=False)


def for_model(env: BaseEnvironment, tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `bound_to`'s function with the values of secrets removed from results and errors."""
    return _bound(tool, lambda: env, for_model=True)


def on_configured_environment(tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `for_model` on the configured environment, started on first use."""

    def configured() -> BaseEnvironment:
        # Imported on the first call: importing the tools must not load settings or backends.
        from environments.tasks import get_environment

        return get_environment()

    return _bound(tool, configured, for_model=True)


def _bound(
    tool: Callable[Concatenate[BaseEnvironment, P], R], environment: Callable[[], BaseEnvironment], *, for_model: bool
) -> Callable[P, R]:
    first, signature = _signature_behind_environment(tool)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        check_arguments(tool, signature.bind(*args, **kwargs).arguments)
        env = environment()
        if not for_model:
            return tool(env, *args, **kwargs)
        view = env.model_view()
        try:
            return view.value(tool(env, *args, **kwargs))
        except TerminalError as error:
            view.redact_error(error)
            raise

    functools.update_wrapper(call, tool)
    # Without these two, callers that inspect a function would find the environment parameter again.
    del call.__dict__["__wrapped__"]
    call.__annotations__ = {name: hint for name, hint in tool.__annotations__.items() if name != first}
    call.__dict__["__presents__"] = tool
    call.__dict__["__signature__"] = signature
    return call


@functools.cache
def _signature_behind_environment(tool: Callable[..., object]) -> tuple[str, inspect.Signature]:
    """Return the name of a tool's first parameter, and the signature without this parameter."""
    signature = inspect.signature(tool)
    environment, *parameters = signature.parameters.values()
    return environment.name, signature.replace(parameters=parameters)


def check_arguments(tool: Callable[..., object], given: Mapping[str, object]) -> None:
    """Check arguments against the annotations of a tool.

    Raises:
        TypeError: An argument has a wrong type.
    """
    hints = _hints(tool)
    for parameter, value in given.items():
        if not _fits(value, hints[parameter]):
            raise TypeError(f"{parameter} must be {_described(hints[parameter])}, not {_type_of(value)}")


@functools.cache
def _hints(tool: Callable[..., object]) -> dict[str, object]:
    return get_type_hints(tool)


def _fits(value: object, hint: object) -> bool:
    """Return True if a value has a type. A bool is no number."""
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
    return _TYPES[hint]


def _type_of(value: object) -> str:
    if isinstance(value, list | tuple) and value:
        items = dict.fromkeys(type(item).__name__ for item in value)
        return f"{type(value).__name__} of {', '.join(items)}"
    return "None" if value is None else type(value).__name__
