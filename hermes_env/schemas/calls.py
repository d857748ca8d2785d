"""Answers to a model's tool calls: JSON text for every call, mistakes and failures included."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from code_execution import ExecutionResult, execute_code
from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.log import logger
from environments.observation.observed import with_tool_result
from environments.output import TextCallback
from environments.tasks import get_environment
from environments.validation import closest
from hermes_env.schemas.answers import answer, error_answer
from hermes_env.schemas.parameters import ArgumentError
from hermes_env.schemas.toolset import CODE, EXECUTE_CODE, SESSION, Toolset
from hermes_tools import model_tools, script_tools
from hermes_tools.model_output import watching_output
from rpc.dispatcher import CLOSE_GRACE_SECONDS
from rpc.event_loop import EventLoopThread
from rpc.signatures import ToolSignature

_log = logger(__name__)

SCRIPT_RESULT = ("status", "output", "error", "exit_code", "tool_calls_made", "duration_seconds")
IF_ANY = ("limit", "value", "note")
"""Further keys, if they have a value: a limit that was reached, a value and a note of a Python that stays."""
_EXPECTED = (ArgumentError, TerminalError, ValueError, TypeError, OSError)
"""Errors of a correct tool of ours; any other one is a fault in it, and is logged."""


def handle_function_call(
    name: str,
    arguments: Mapping[str, object] | str | None,
    task_id: str = "default",
    *,
    tools: Iterable[str] | None = None,
    own_tools: Mapping[str, Callable[..., object]] | None = None,
) -> str:
    """Run the tool that a model called, and return the answer for it.

    Calls may come from many threads at once. Of one task, commands in the session run one after the other.

    Args:
        name: The tool's name.
        arguments: Its arguments by name, as a mapping or as the JSON text that a model wrote. Text is taken for the
            number or truth value that it says.
        task_id: Whose environment it works in: `environments.tasks.get_environment(task_id)`, which makes one from
            the settings when there is none yet.
        tools: As for `tool_schemas`: names of our tools that the model has; None is all of them.
        own_tools: As for `tool_schemas`: functions of yours by name, `async def` included. They run here, and
            return what JSON carries.

    Returns:
        JSON text with at most some 100,000 characters of text, without the values of secrets: what the tool returned,
        or an object with `error` alone, if there is no such tool, the arguments are wrong, the tool failed or raised,
        or the environment could not be had.

    Raises:
        ValueError: `tools` or `own_tools` hold a name that is not allowed. Nothing is raised for what a model does.
    """
    return answer_in(partial(get_environment, task_id), Toolset.of(tools, own_tools), name, arguments)


def answer_in(
    environment: Callable[[], BaseEnvironment],
    tools: Toolset,
    name: str,
    arguments: Mapping[str, object] | str | None,
    on_output: TextCallback | None = None,
    on_images: Callable[[Sequence[bytes]], object] | None = None,
) -> str:
    """Do what `handle_function_call` does, in an environment that is had in another way.

    Args:
        environment: Returns it. What it raises is the answer.
        tools: Those that the model has.
        name: The tool's name.
        arguments: As for `handle_function_call`.
        on_output: Called with what a command or a script prints while it runs, without the values of secrets; for
            `terminal` in this thread, and for `execute_code` in another one.
        on_images: Called with the figures that a script has made in a Python that stays, as PNG; without it they are
            left out, and the answer says so.
    """
    try:
        if name not in tools.names:
            raise ArgumentError(no_such_tool(str(name), tools))
        values = tools.parameters(name).checked(_decoded(arguments))
        env = environment()
    except Exception as error:
        return error_answer(_told(error))
    try:
        return answer(_result(tools, name, values, env, on_output, on_images))
    except Exception as error:
        if name not in tools.own and not isinstance(error, _EXPECTED):
            _log.warning("the tool %s raised %s", name, type(error).__name__, exc_info=error)
        message = _told(error)
        if name in tools.own:
            message = ToolSignature.of(tools.own[name]).without_bound(message)
        return error_answer(env.model_view().output(message))


def _result(
    tools: Toolset,
    name: str,
    arguments: Mapping[str, object],
    env: BaseEnvironment,
    on_output: TextCallback | None,
    on_images: Callable[[Sequence[bytes]], object] | None,
) -> object:
    if name == EXECUTE_CODE:
        built_in = script_tools(env)
        run = execute_code(
            str(arguments[CODE]),
            env=env,
            tools={**{name: built_in[name] for name in tools.built_in_for_scripts}, **tools.own_for_scripts},
            mcp_servers=tools.has_servers,
            on_output=on_output,
            session=_session(arguments.get(SESSION)),
        )
        return _told_of_script(run, on_images)
    with env.observation.observed("tool_call", name, lambda: {"tool": name, "arguments": arguments}) as operation:
        if name in tools.own:
            return with_tool_result(operation, env.model_view().value(_awaited(tools.own[name](**arguments))))
        with watching_output(on_output):
            return with_tool_result(operation, model_tools(env)[name](**arguments))


def _session(given: object) -> str | bool | None:
    """Return the session that a model gives; text may be a name, or a truth value. None leaves it to the setting."""
    if isinstance(given, str) and given.lower() not in ("", "true", "false"):
        return given
    return True if given is True or str(given).lower() == "true" else None


def _told_of_script(run: ExecutionResult, on_images: Callable[[Sequence[bytes]], object] | None) -> object:
    if run.images and on_images:
        on_images(run.images)
    elif run.images:
        left_out = f"{len(run.images)} figures were made; this answer cannot hold them: save them to files."
        run = replace(run, note=f"{run.note} {left_out}" if run.note else left_out)
    told = {key: getattr(run, key) for key in SCRIPT_RESULT}
    return told | {key: value for key in IF_ANY if (value := getattr(run, key)) is not None}


def _awaited(result: object) -> object:
    """Return a result; what an `async def` returned is awaited on an event loop of its own, in another thread."""
    if not inspect.isawaitable(result):
        return result
    event_loop = EventLoopThread()
    try:
        return event_loop.result_of(result)
    finally:
        event_loop.close()
        event_loop.join(CLOSE_GRACE_SECONDS)


def _decoded(arguments: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return a model's arguments; some models write nothing, or null, where a tool needs none."""
    if arguments is None or isinstance(arguments, Mapping):
        return arguments or {}
    try:
        decoded = json.loads(arguments or "{}", strict=False)  # line ends inside texts are a common mistake
    except (ValueError, TypeError, RecursionError) as error:
        raise ArgumentError(f"the arguments are not JSON: {error}") from error
    if decoded is not None and not isinstance(decoded, dict):
        raise ArgumentError(f"the arguments are a JSON {type(decoded).__name__}; give an object")
    return decoded or {}


def no_such_tool(name: str, tools: Toolset) -> str:
    """Return the message for a name that no tool has."""
    shown = name[:100]
    return f"there is no tool {shown!r}{closest(shown, tools.names)}; there are: {', '.join(tools.names)}"


def _told(error: Exception) -> str:
    if not isinstance(error, _EXPECTED):
        return f"{type(error).__name__}: {error}"
    return str(error) or type(error).__name__
