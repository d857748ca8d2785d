"""The list of tools for a client: schemas of arguments and results, and annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from mcp.types import Tool, ToolAnnotations

import hermes_tools
from code_execution.result import ExecutionResult
from hermes_env.schemas import tool_schemas
from hermes_env.schemas.calls import IF_ANY, SCRIPT_RESULT
from hermes_env.schemas.parameters import Schema
from hermes_env.schemas.toolset import EXECUTE_CODE


def _annotations(
    title: str, *, reads_only: bool = False, idempotent: bool = False, network: bool = False
) -> ToolAnnotations:
    return ToolAnnotations(
        title=title,
        read_only_hint=reads_only,
        destructive_hint=not reads_only,
        idempotent_hint=reads_only or idempotent,
        open_world_hint=network,
    )


_ANNOTATIONS: Mapping[str, ToolAnnotations] = {
    "terminal": _annotations("Run a command", network=True),
    "process": _annotations("See to commands in the background"),
    "read_file": _annotations("Read a file", reads_only=True),
    "write_file": _annotations("Write a file", idempotent=True),
    "search_files": _annotations("Search in files", reads_only=True),
    "patch": _annotations("Change files"),
    "web_search": _annotations("Search the web", reads_only=True, network=True),
    "web_extract": _annotations("Read web pages", reads_only=True, network=True),
    "execute_code": _annotations("Run a Python script", network=True),
}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_LEFT_OUT: Schema = {"type": "string", "description": "At the end of a list that is too long: how many are left out."}


def listed_tools(names: Iterable[str]) -> list[Tool]:
    """Return our tools in the form of `tools/list`.

    Args:
        names: The names of the tools.

    Raises:
        SettingsError: The settings in `code_execution:` are wrong; a tool's description contains them.
    """
    return [_listed(schema) for schema in tool_schemas("anthropic", tools=names)]


def _listed(schema: Mapping[str, Any]) -> Tool:
    name = schema["name"]
    return Tool(
        name=name,
        title=_ANNOTATIONS[name].title,
        description=schema["description"],
        input_schema=schema["input_schema"],
        output_schema=_output_schema(name),
        annotations=_ANNOTATIONS[name],
    )


def _output_schema(tool: str) -> Schema:
    """Return the schema of a tool's result, made from the function's types: the whole result, or only `error`."""
    if tool == EXECUTE_CODE:
        types = get_type_hints(ExecutionResult)
        schema = _object({name: types[name] for name in SCRIPT_RESULT} | dict.fromkeys(IF_ANY, NotRequired[str]))
    else:
        schema = _schema(get_type_hints(getattr(hermes_tools, tool).__presents__)["return"])
    if always := schema.pop("required", None):
        # Only `error` is the result if the environment could not be started.
        schema["anyOf"] = [{"required": always}, {"required": ["error"]}]
    return schema


def _object(types: dict[str, Any], *, total: bool = True) -> Schema:
    always = [name for name, kind in types.items() if total and get_origin(kind) is not NotRequired]
    schema: Schema = {"type": "object", "properties": {name: _schema(kind) for name, kind in types.items()}}
    return {**schema, "required": always} if always else schema


def _schema(kind: Any) -> Schema:  # noqa: ANN401
    origin, arguments = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _object(get_type_hints(kind, include_extras=True), total=getattr(kind, "__total__", True))
    if origin is NotRequired:
        return _schema(arguments[0])
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each) for each in arguments]}
    if origin is list:
        item = _schema(arguments[0])
        return {"type": "array", "items": item if item == {"type": "string"} else {"anyOf": [item, _LEFT_OUT]}}
    return {"type": _PLAIN[kind]}
