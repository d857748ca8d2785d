"""Answers to a model's tool calls: JSON text for every call, also for wrong and failed calls."""

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
"""Further keys, if they have a value: a reached limit, and the value and note of a persistent Python."""
_EXPECTED = (ArgumentError, TerminalError, ValueError, TypeError, OSError)
"""Errors of a correct built-in tool. Any other error is a bug, and is logged."""


def handle_function_call(
    name: str,
    arguments: Mapping[str, object] | str | None,
    task_id: str = "default",
    *,
    tools: Iterable[str] | None = None,
    own_tools: Mapping[str, Callable[..., object]] | None = None,
) -> str:
    """Run the tool for a model's call, and return the answer for the model.

    Thread-safe. Commands in the session of a task run one after another.

    Args:
        name: The tool's name.
        arguments: The arguments by name, as a mapping or as JSON text from the model. Text stands for the number or
            boolean spelled by the text.
        task_id: The task of the environment: `environments.tasks.get_environment(task_id)`, made from the settings if
            necessary.
        tools: As for `tool_schemas`: names of the model's built-in tools; None is all of them.
        own_tools: As for `tool_schemas`: your functions by name, `async def` included. They run in this process, and
            return values that JSON can hold.

    Returns:
        JSON text with at most some 100,000 characters of text, without the values of secrets: the tool's result, or an
        object with only `error` for an unknown tool, wrong arguments, a failed tool, or a failed start of the
        environment.

    Raises:
        ValueError: `tools` or `own_tools` hold a forbidden name. A model's mistake never raises.
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
    """Run a tool as `handle_function_call` does, in any environment.

    Args:
        environment: Returns the environment. An exception becomes the answer.
        tools: The model's tools.
        name: The tool's name.
        arguments: As for `handle_function_call`.
        on_output: Receives the output of a command or a script during the run, without the values of secrets; for
            `terminal` in this thread, and for `execute_code` in another thread.
        on_images: Receives the figures of a script in a persistent Python, as PNG. Without this callback a note in the
            answer counts them.
    """
    try:
        if name not in tools.names:
            raise ArgumentError(no_such_tool(str(name), tools))
        values = tools.parameters(name).checked(_decoded(arguments))
        env = environment()
    except Exception as error:
        return error_answer(_message(error))
    try:
        return answer(_result(tools, name, values, env, on_output, on_images))
    except Exception as error:
        if name not in tools.own and not isinstance(error, _EXPECTED):
            _log.warning("the tool %s raised %s", name, type(error).__name__, exc_info=error)
        message = _message(error)
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
        return _script_answer(run, on_images)
    with env.observation.observed("tool_call", name, lambda: {"tool": name, "arguments": arguments}) as operation:
        if name in tools.own:
            return with_tool_result(operation, env.model_view().value(_awaited(tools.own[name](**arguments))))
        with watching_output(on_output):
            return with_tool_result(operation, model_tools(env)[name](**arguments))


def _session(given: object) -> str | bool | None:
    """Return the argument `session` for `execute_code`: a model's text is a name or a boolean. None is the setting."""
    if isinstance(given, str) and given.lower() not in ("", "true", "false"):
        return given
    return True if given is True or str(given).lower() == "true" else None


def _script_answer(run: ExecutionResult, on_images: Callable[[Sequence[bytes]], object] | None) -> object:
    if run.images and on_images:
        on_images(run.images)
    elif run.images:
        left_out = f"{len(run.images)} figures were made; this answer cannot hold them: save them to files."
        run = replace(run, note=f"{run.note} {left_out}" if run.note else left_out)
    answered = {key: getattr(run, key) for key in SCRIPT_RESULT}
    return answered | {key: value for key in IF_ANY if (value := getattr(run, key)) is not None}


def _awaited(result: object) -> object:
    """Return a result. A coroutine is awaited on a new event loop, in another thread."""
    if not inspect.isawaitable(result):
        return result
    event_loop = EventLoopThread()
    try:
        return event_loop.result_of(result)
    finally:
        event_loop.close()
        event_loop.join(CLOSE_GRACE_SECONDS)


def _decoded(arguments: Mapping[str, object] | str | None) -> Mapping[str, object]:
    """Return a model's arguments. Some models send empty text or null for a tool without arguments."""
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
    """Return the message for an unknown tool."""
    shown = name[:100]
    return f"there is no tool {shown!r}{closest(shown, tools.names)}; there are: {', '.join(tools.names)}"


def _message(error: Exception) -> str:
    if not isinstance(error, _EXPECTED):
        return f"{type(error).__name__}: {error}"
    return str(error) or type(error).__name__
