"""Tools for callers: functions without the environment parameter, whose arguments are checked."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from hermes_tools.arguments import check_arguments

P = ParamSpec("P")
R = TypeVar("R")


def bound_to(env: BaseEnvironment, tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `tool` as a function that works on `env`, with the signature and docstring it has without it."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return tool(env, *args, **kwargs)

    return _presented(call, tool)


def for_model(env: BaseEnvironment, tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `bound_to`'s function with the values of secrets removed from its results and errors."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _shown(env, tool, *args, **kwargs)

    return _presented(call, tool)


def on_configured_environment(tool: Callable[Concatenate[BaseEnvironment, P], R]) -> Callable[P, R]:
    """Return `for_model` on the environment that the settings name, started on first use."""

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # Imported on the first call: importing the tools must not load settings or backends.
        from environments.tasks import get_environment

        return _shown(get_environment(), tool, *args, **kwargs)

    return _presented(call, tool)


def _shown(
    env: BaseEnvironment, tool: Callable[Concatenate[BaseEnvironment, P], R], *args: P.args, **kwargs: P.kwargs
) -> R:
    view = env.model_view()
    try:
        return view.value(tool(env, *args, **kwargs))
    except TerminalError as error:
        view.hide_in(error)
        raise


def _presented(call: Callable[P, R], tool: Callable[..., R]) -> Callable[P, R]:
    environment, signature = _signature_behind_environment(tool)

    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check_arguments(tool, signature, args, kwargs)
        return call(*args, **kwargs)

    functools.update_wrapper(checked, tool)
    # Without these two, tools that inspect a function would find the environment parameter again.
    del checked.__dict__["__wrapped__"]
    checked.__annotations__ = {name: kind for name, kind in tool.__annotations__.items() if name != environment}
    checked.__dict__["__presents__"] = tool
    checked.__dict__["__signature__"] = signature
    return checked


@functools.cache
def _signature_behind_environment(tool: Callable[..., object]) -> tuple[str, inspect.Signature]:
    """Return the name of a tool's first parameter, and its signature without that."""
    signature = inspect.signature(tool)
    environment, *parameters = signature.parameters.values()
    return environment.name, signature.replace(parameters=parameters)
