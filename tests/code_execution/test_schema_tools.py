"""A function-calling dispatcher as a script's tools, on every transport."""

from __future__ import annotations

import json

import pytest

from code_execution import execute_code, tools_from_schemas
from environments import BaseEnvironment
from environments.approvals import ToolCallRequest

SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": "find_pages",
            "description": "Find pages.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "fail": {"type": "boolean"}},
                "required": ["query"],
            },
        },
    },
    {"name": "read-page", "input_schema": {"type": "object", "properties": {"page-id": {}}, "required": ["page-id"]}},
]


def handle_function_call(name: str, arguments: dict[str, object]) -> str:
    if arguments.get("fail"):
        return json.dumps({"error": "no index"})
    if name == "read-page":
        return f"The text of page {arguments['page-id']}"
    return json.dumps({"pages": [1, 2], "asked": arguments})


async def handle_later(name: str, arguments: dict[str, object]) -> str:
    return handle_function_call(name, arguments)


CODE = """
from hermes_tools import ToolError, find_pages, read_page
print(find_pages("x", 5)["pages"], find_pages(query="y")["asked"], find_pages("z", fail=True))
print(read_page(**{"page-id": 7}))
try: find_pages()
except ToolError as error: print("missing 1 required" in str(error))
help(find_pages)
"""


@pytest.mark.parametrize(("handle", "transport"), [(handle_function_call, "file"), (handle_later, "socket")])
def test_a_script_calls_what_the_schemas_describe(env: BaseEnvironment, handle: object, transport: str) -> None:
    tools = tools_from_schemas(SCHEMAS, handle)  # type: ignore[arg-type]
    result = execute_code(CODE, env=env, tools=tools, transport=transport)  # type: ignore[arg-type]
    lines = result.output.splitlines()
    assert lines[:3] == ["[1, 2] {'query': 'y'} {'error': 'no index'}", "The text of page 7", "True"]
    assert "find_pages(query: 'str', limit: 'int' = ..., fail: 'bool' = ...)" in result.output
    assert [(call.name, call.error) for call in result.tool_calls] == [
        ("find_pages", None),
        ("find_pages", None),
        ("find_pages", "no index"),
        ("read_page", None),
    ]


def test_a_hook_sees_the_arguments_by_the_names_of_the_properties(env: BaseEnvironment) -> None:
    seen: list[ToolCallRequest] = []
    tools = tools_from_schemas(SCHEMAS, handle_function_call)
    code = "from hermes_tools import read_page; read_page(**{'page-id': 7})"
    execute_code(code, env=env, tools=tools, before_tool_call=seen.append)
    assert [(request.tool, request.arguments) for request in seen] == [("read_page", {"page-id": 7})]


def test_tools_of_schemas_go_with_others(env: BaseEnvironment) -> None:
    from hermes_tools import script_tools

    tools = {**script_tools(env), **tools_from_schemas(SCHEMAS, handle_function_call)}
    code = "from hermes_tools import *; print(terminal('echo here')['output'] + str(find_pages('x')['pages']))"
    assert execute_code(code, env=env, tools=tools).output == "here\n[1, 2]\n"
