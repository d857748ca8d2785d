"""Tools that schemas describe and one function runs, whatever their names."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable

from rpc.signatures import Described
from rpc.stub import check_name
from rpc.tool_schema import ToolSchema

Handle = Callable[[str, dict[str, object]], object]
"""Takes a tool's name and its arguments by their names. What it returns may have to be awaited."""


def tools_from_schemas(
    schemas: Iterable[object], handle: Handle, *, decode_json: bool = True
) -> dict[str, Callable[..., object]]:
    """Make tools for a script of function-calling schemas and the function that runs such calls.

    Each tool has a signature and a docstring made of its schema: first what is required, in the order of the
    properties, then the rest, with the schema's defaults; what has none is not sent when it is not given. A property
    that can't be the name of a parameter is passed as `**{"its-name": ...}`, and so are others that
    `additionalProperties` allows. What `handle` returns as text that is JSON arrives in the script as what it says,
    `"123"` and `"null"` too; other text stays text.

    Args:
        schemas: Each in OpenAI's form, `{"type": "function", "function": {"name", "description", "parameters"}}`, in
            Anthropic's, `{"name", "description", "input_schema"}`, or `{"name", "description", "parameters"}`.
        handle: Called as `handle(name, arguments)` for each call, at the same time from several threads; it may be an
            `async def`. The name is the schema's, the arguments are a dict of what was given.
        decode_json: Whether text that is JSON arrives as what it says; if not, all text stays text.

    Returns:
        The tools, to be given as `tools=` to `execute_code`, by their names. A name has `_` in the script for whatever
        can't stand in a Python name: `get-weather` is `get_weather`.

    Raises:
        ValueError: A schema is not in order, or no script could call it by its name.
        TypeError: `handle` can't be called.
    """
    if not callable(handle):
        raise TypeError(f"handle is of type {type(handle).__name__}; give a function of name and arguments")
    tools: dict[str, Callable[..., object]] = {}
    for number, schema in enumerate(schemas, 1):
        described = ToolSchema.read(schema, f"schema {number}")
        name = described.python_name
        check_name(name)
        if name in tools:
            raise ValueError(f"schema {number}, {described.name!r}, makes a tool {name!r}, and so does one before it")
        tools[name] = _tool(described, handle, _decoded if decode_json else _as_it_is)
    return tools


def _tool(schema: ToolSchema, handle: Handle, decode: Callable[[object], object]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        answer = handle(schema.name, schema.arguments(*args, **kwargs))
        return _decoded_later(answer, decode) if inspect.isawaitable(answer) else decode(answer)

    call.__name__ = call.__qualname__ = schema.python_name
    call.__doc__ = schema.documentation or None
    call.__dict__["__signature__"] = schema.signature
    call.__dict__["__described__"] = Described(schema.arguments, handle)
    return call


async def _decoded_later(answer: Awaitable[object], decode: Callable[[object], object]) -> object:
    return decode(await answer)


def _as_it_is(answer: object) -> object:
    return answer


def _decoded(answer: object) -> object:
    if not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return answer


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
