"""What a model is told of `execute_code`: which tools its scripts have, their limits, and when to write one."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import hermes_tools
from code_execution.mcp.settings import servers_of
from code_execution.settings import CodeExecutionSettings
from environments.plain_number import plain_number
from hermes_env.schemas.descriptions import DESCRIPTIONS, OPENAI_LIMIT
from hermes_env.schemas.toolset import Toolset
from rpc.signatures import ToolSignature, Verbatim, documentation

_USE = (
    "Run a Python script that calls tools as functions; only what it prints comes back. Use it for three or more calls "
    "with logic between them, loops, and to filter large output. Make a single call directly, and those whose results "
    "you must read in full."
)
_HELPERS = "json_parse(text), shell_quote(s), retry(fn, max_attempts=3, delay=2)"
_WHERE = {
    "project": "It runs in the session's working directory with its active Python, and can import the project.",
    "strict": "It runs in a directory of its own, so give open() absolute paths.",
}


def script_texts(tools: Toolset, settings: CodeExecutionSettings) -> tuple[str, str]:
    """Return the description of `execute_code` and that of its parameter `code`.

    The tools are listed in the former as long as it is no longer than what OpenAI takes.

    Args:
        tools: What the model has.
        settings: The limits of its scripts.
    """
    lines = [*map(_built_in_line, tools.built_in_for_scripts), *_own_lines(tools)]
    listed = "\n".join(["from hermes_tools import ...", *lines, _HELPERS])
    limits = (
        f"Limits: {plain_number(settings.timeout)} s, {settings.max_tool_calls} tool calls, "
        f"{_size(settings.max_stdout_bytes)} of output."
    )
    description = "\n\n".join([_USE, listed, limits])
    if len(description) <= OPENAI_LIMIT:
        return description, _code_text(tools, settings)
    names = ", ".join((*tools.built_in_for_scripts, *tools.own_for_scripts))
    short = f"Tools (see code for their arguments): {names}; helpers: {_HELPERS}"
    return "\n\n".join([_USE, short, limits]), f"{_code_text(tools, settings)}\n{listed}"


def _code_text(tools: Toolset, settings: CodeExecutionSettings) -> str:
    notes = [DESCRIPTIONS[name].script_note for name in tools.built_in_for_scripts]
    parts = [
        "Python source, for 3.8 or later, standard library included. Print the result, and no more than you need.",
        _WHERE[settings.mode],
        _on_errors(settings),
        *filter(None, notes),
        *_on_servers(tools, settings),
        "json_parse reads JSON with raw control characters in it, shell_quote makes a text one word of a command, and "
        "retry calls a function again while it raises or returns an error.",
    ]
    return " ".join(parts)


def _on_servers(tools: Toolset, settings: CodeExecutionSettings) -> list[str]:
    names = list(servers_of(settings.mcp_servers)) if settings.mcp_servers and tools.has_servers else []
    if not names:
        return []
    return [
        f"Tools of MCP servers ({', '.join(names)}) are functions of hermes_tools, too, called <server>_<tool>: "
        "print(dir(hermes_tools)) lists them, help(hermes_tools.NAME) explains one."
    ]


def _on_errors(settings: CodeExecutionSettings) -> str:
    told = "Tools return dicts. One that could not do its work returns a dict with error: check result.get('error')."
    if settings.tool_errors == "raise":
        told += " A call that is refused, or that breaks, raises hermes_tools.ToolError."
    return told


def _built_in_line(name: str) -> str:
    description = DESCRIPTIONS[name]
    signature = inspect.signature(getattr(hermes_tools, name))
    parameters = [
        signature.parameters[parameter].replace(annotation=inspect.Parameter.empty)
        for parameter in description.in_scripts
    ]
    shown = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return f"{name}{shown} -> {', '.join(description.returns)}"


def _own_lines(tools: Toolset) -> list[str]:
    return [f"{name}{_shown(tool)}{_summary(tool)}" for name, tool in tools.own_for_scripts.items()]


def _shown(tool: Callable[..., object]) -> str:
    known = ToolSignature.of(tool)
    if known.parameters is None:
        return "(...)"
    parameters = [
        parameter.replace(
            annotation=_written(parameter.annotation),
            default=Verbatim("...") if name in known.hidden else parameter.default,
        )
        for name, parameter in known.parameters.parameters.items()
    ]
    returned = _written(known.parameters.return_annotation)
    return str(known.parameters.replace(parameters=parameters, return_annotation=returned))


def _written(annotation: object) -> object:
    if annotation is inspect.Signature.empty:
        return annotation
    return Verbatim(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation))


def _summary(tool: Callable[..., object]) -> str:
    first = (documentation(tool) or "").partition("\n")[0]
    return f": {first}" if first else ""


def _size(count: int) -> str:
    return f"{count // 1000} KB" if count >= 1000 else f"{count} bytes"
