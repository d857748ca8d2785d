"""What each tool returns, as a JSON schema that its client can check results by. The types come from the functions."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import hermes_tools
from code_execution.result import ExecutionResult
from hermes_env.schemas.calls import IF_ANY, SCRIPT_RESULT
from hermes_env.schemas.parameters import Schema
from hermes_env.schemas.toolset import EXECUTE_CODE

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
_LEFT_OUT: Schema = {"type": "string", "description": "At the end of a list that is too long: how many are left out."}


def output_schema(tool: str) -> Schema:
    """Return the schema of what a tool of ours returns: what the function does, or `error` alone.

    Args:
        tool: Its name.
    """
    schema = _script_result() if tool == EXECUTE_CODE else _schema(_returned(tool))
    if always := schema.pop("required", None):
        # Such as when the environment could not be started.
        schema["anyOf"] = [{"required": always}, {"required": ["error"]}]
    return schema


def _returned(tool: str) -> object:
    return get_type_hints(getattr(hermes_tools, tool).__presents__)["return"]


def _script_result() -> Schema:
    types = get_type_hints(ExecutionResult)
    return _object({name: types[name] for name in SCRIPT_RESULT} | dict.fromkeys(IF_ANY, NotRequired[str]))


def _object(types: dict[str, object], *, total: bool = True) -> Schema:
    always = [name for name, kind in types.items() if total and get_origin(kind) is not NotRequired]
    schema: Schema = {"type": "object", "properties": {name: _schema(kind) for name, kind in types.items()}}
    return {**schema, "required": always} if always else schema


def _schema(kind: object) -> Schema:
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
    assert isinstance(kind, type)
    return {"type": _PLAIN[kind]}
