"""The tool schemas for a model agree with the functions."""

from __future__ import annotations

import functools
import inspect
import json
import re
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import jsonschema
import pytest
from pydantic import Field, TypeAdapter

from code_execution import CodeExecutionSettings
from environments import BaseEnvironment
from hermes_env.schemas import tool_schemas
from hermes_env.schemas.descriptions import DESCRIPTIONS
from hermes_env.schemas.toolset import Toolset
from hermes_tools import model_tools, script_tools

EVERY_TOOL = [*DESCRIPTIONS, "execute_code"]


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


def by_name(**asked: object) -> dict[str, dict[str, typing.Any]]:
    return {schema["name"]: schema for schema in tool_schemas("anthropic", **asked)}  # type: ignore[arg-type]


def test_there_is_a_schema_for_every_tool_of_a_model(env: BaseEnvironment) -> None:
    assert set(by_name()) == {*model_tools(env), "execute_code"}
    assert list(by_name()) == EVERY_TOOL


def test_a_schema_has_the_parameters_of_its_function_and_their_types(env: BaseEnvironment) -> None:
    for name in DESCRIPTIONS:
        _has_parameters_of(model_tools(env)[name], name)


def _has_parameters_of(tool: Callable[..., object], name: str) -> None:
    signature = inspect.signature(tool)
    types = typing.get_type_hints(tool.__dict__["__presents__"])
    schema = by_name()[name]["input_schema"]
    assert list(schema["properties"]) == list(signature.parameters)
    optional = {p.name for p in signature.parameters.values() if p.default is not p.empty}
    assert set(schema["required"]) == set(signature.parameters) - optional
    for parameter, shown in schema["properties"].items():
        default = signature.parameters[parameter].default
        if parameter in optional and default is not None:
            assert shown["default"] == json.loads(json.dumps(default))
        else:
            assert "default" not in shown
        kind = typing.get_args(types[parameter])[0] if default is None else types[parameter]
        expected = TypeAdapter(kind).json_schema()
        assert {key: shown[key] for key in expected} == expected


def test_a_schema_is_json_schema_and_describes_everything() -> None:
    for shown in by_name().values():
        jsonschema.Draft202012Validator.check_schema(shown["input_schema"])
        assert shown["input_schema"]["additionalProperties"] is False
        assert 50 < len(shown["description"]) <= 1024
        for parameter in shown["input_schema"]["properties"].values():
            assert len(parameter["description"]) > 10
            assert {"type", "anyOf"} & set(parameter)


def test_a_parameter_is_described_by_the_docstring_of_its_function() -> None:
    shown = by_name()
    parameters = shown["read_file"]["input_schema"]["properties"]
    assert parameters["offset"]["description"] == "First line, counted from 1."
    watch = shown["terminal"]["input_schema"]["properties"]["watch"]["description"]
    assert watch.startswith("With background: ") and watch.endswith("16 at most, of 512 characters each.")
    assert not any(word in json.dumps(shown) for word in ("Args:", "Raises:", "\n    "))


def test_windows_has_no_execute_code() -> None:
    code = (
        "import sys, code_execution, hermes_tools\n"
        "here, sys.platform = sys.platform, 'win32'\n"
        "from hermes_env.schemas import handle_function_call, tool_schemas\n"
        "sys.platform = here\n"
        "print([each['name'] for each in tool_schemas('anthropic')])\n"
        "print(handle_function_call('execute_code', {'code': '1'}))\n"
        "tool_schemas(tools=['execute_code'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    names, answer = done.stdout.splitlines()
    assert "'patch'" in names and "execute_code" not in names
    assert "there is no tool 'execute_code'" in answer
    assert "ValueError: there is no tool 'execute_code'" in done.stderr


def test_arguments_that_the_signature_allows_are_valid_and_others_are_not() -> None:
    check = jsonschema.Draft202012Validator(by_name()["terminal"]["input_schema"])
    assert check.is_valid({"command": "true", "timeout": 1.5, "workdir": "/"})
    for wrong in ({}, {"command": 5}, {"command": "true", "timeout": "soon"}, {"command": "true", "shell": "zsh"}):
        assert not check.is_valid(wrong)


def test_both_schema_forms_have_the_same_content() -> None:
    anthropic = tool_schemas("anthropic")
    for ours, theirs in zip(tool_schemas("openai"), anthropic, strict=True):
        assert ours["type"] == "function"
        assert ours["function"] == {
            "name": theirs["name"],
            "description": theirs["description"],
            "parameters": theirs["input_schema"],
        }
    assert tool_schemas() == tool_schemas("openai")
    assert json.loads(json.dumps(anthropic)) == anthropic
    with pytest.raises(ValueError, match="form is 'gemini'; allowed: openai, anthropic"):
        tool_schemas("gemini")  # type: ignore[arg-type]


def test_the_description_of_execute_code_names_the_tools_that_a_script_has(env: BaseEnvironment) -> None:
    told = by_name()["execute_code"]["description"]
    listed = dict(re.findall(r"^(\w+)\((.*?)\) -> ", told, re.MULTILINE))
    assert set(listed) == set(script_tools(env))
    for name, arguments in listed.items():
        tool = script_tools(env)[name]
        shown = [word.partition("=")[0].strip() for word in re.findall(r"\w+(?:='?[^,]*'?)?", arguments)]
        assert [name for name in inspect.signature(tool).parameters if name in shown] == shown
        kinds = typing.get_type_hints(tool.__dict__["__presents__"])["return"]
        assert set(DESCRIPTIONS[name].returns) <= set(kinds.__annotations__)
    for word in ("json_parse(text)", "shell_quote(s)", "retry(fn", "print", "three or more"):
        assert word in told


def test_the_description_names_the_limits_of_the_settings(configure: Callable[[str], None]) -> None:
    assert "Limits: 300 s, 50 tool calls, 50 KB of output." in by_name()["execute_code"]["description"]
    configure("code_execution: {timeout: 45, max_tool_calls: 7, max_stdout_bytes: 900, mode: strict}")
    shown = by_name()["execute_code"]
    assert "Limits: 45 s, 7 tool calls, 900 bytes of output." in shown["description"]
    assert "give open() absolute paths" in shown["input_schema"]["properties"]["code"]["description"]


def test_mcp_servers_of_the_settings_are_described_unless_a_tool_is_left_out() -> None:
    settings = CodeExecutionSettings(
        mcp_servers={"my-mail": {"command": "x"}, "off": {"url": "http://h/", "enabled": False}}
    )
    assert "MCP servers (my_mail) are functions of hermes_tools" in Toolset.of(None, None).script_texts(settings)[1]
    assert "MCP" not in Toolset.of(["execute_code", "terminal"], None).script_texts(settings)[1]
    assert "MCP" not in Toolset.of(None, None).script_texts(CodeExecutionSettings())[1]


def test_only_the_requested_tools_have_schemas_and_are_described() -> None:
    shown = by_name(tools=["execute_code", "terminal"])
    assert list(shown) == ["terminal", "execute_code"]
    told = json.dumps(shown)
    assert not re.search(r"\b(read_file|write_file|search_files|patch|web_search|web_extract)\b", told)
    assert by_name(tools=[]) == {}
    with pytest.raises(ValueError, match=r"no tool 'terminl' \(did you mean 'terminal'\?\)"):
        tool_schemas(tools=["terminl"])


def find_orders(paid: Annotated[bool, Field(description="Whether they are paid.")], region: str | None = "EU") -> list:
    """Return the numbers of orders."""
    return [paid, region]


def test_a_function_of_the_programs_own_is_a_tool_by_its_annotations_and_docstring() -> None:
    shown = by_name(tools=["execute_code"], own_tools={"find_orders": find_orders})
    assert shown["find_orders"]["description"] == "Return the numbers of orders."
    assert shown["find_orders"]["input_schema"] == {
        "type": "object",
        "properties": {
            "paid": {"type": "boolean", "description": "Whether they are paid."},
            "region": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "EU"},
        },
        "required": ["paid"],
        "additionalProperties": False,
    }
    assert "\nfind_orders(paid: " in shown["execute_code"]["description"]
    assert ": Return the numbers of orders." in shown["execute_code"]["description"]


def test_bound_arguments_of_a_function_are_not_in_its_schema() -> None:
    bound = functools.partial(find_orders, region="sesame-4711")
    assert "sesame" not in json.dumps(by_name(own_tools={"find": bound}))


def test_a_function_that_no_model_can_call_is_refused() -> None:
    for name, tool, reason in (
        ("execute_code", find_orders, "not allowed as the name of your own tool"),
        ("find orders", find_orders, "not allowed as the name of your own tool"),
        ("by_place", lambda a, /: a, "has positional-only parameters"),
    ):
        with pytest.raises(ValueError, match=reason):
            tool_schemas(own_tools={name: tool})  # type: ignore[dict-item]


def test_a_type_without_a_json_schema_is_refused_by_name() -> None:
    class Socket:
        pass

    def send(to: Socket) -> None:
        pass

    send.__annotations__ = {"to": Socket}
    with pytest.raises(ValueError, match=r"a model cannot call the tool 'send': .*'to'"):
        tool_schemas(own_tools={"send": send})


def test_with_many_own_tools_the_description_stays_as_short_as_openai_wants_it() -> None:
    own = {f"find_orders_{number}": find_orders for number in range(30)}
    shown = by_name(own_tools=own)["execute_code"]
    assert len(shown["description"]) <= 1024
    assert all(f"\n{name}(" in shown["input_schema"]["properties"]["code"]["description"] for name in own)
