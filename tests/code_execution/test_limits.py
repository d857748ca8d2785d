"""The limits of a script: arguments, settings, and the message about a reached limit."""

from __future__ import annotations

import math

import pytest

from code_execution import CodeExecutionSettings, execute_code
from code_execution.limits import Limits, TransportName, checked_code, checked_tools
from environments import BaseEnvironment
from rpc import ToolErrors

SETTINGS = CodeExecutionSettings(timeout=7, max_tool_calls=3, mode="strict", tool_errors="return")
LIMIT = "The limit of 2 tool calls (max_tool_calls) was reached: {} refused."


def checked(**given: object) -> Limits:
    arguments = {
        "timeout": None,
        "max_tool_calls": None,
        "mode": None,
        "transport": "auto",
        "tool_errors": None,
        "session_env": False,
        **given,
    }
    return Limits.checked(SETTINGS, **arguments)  # type: ignore[arg-type]


def test_missing_arguments_come_from_the_settings() -> None:
    assert checked() == Limits(SETTINGS, 7, 3, "strict", "auto", "return", session_env=False)
    given = {"timeout": 0.5, "max_tool_calls": 0, "mode": "project", "transport": "file", "tool_errors": "raise"}
    assert checked(**given, session_env=1) == Limits(SETTINGS, 0.5, 0, "project", "file", "raise", session_env=True)
    assert checked(timeout=math.inf).timeout == math.inf


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout": 0}, "timeout is 0 s; give a positive number"),
        ({"timeout": math.nan}, "timeout is nan s"),
        ({"max_tool_calls": -1}, "max_tool_calls is -1; give 0 or more"),
        ({"mode": "loose"}, "mode is 'loose'; allowed: project, strict"),
        ({"transport": "unix"}, "transport is 'unix'; allowed: auto, socket, relay, file"),
        ({"tool_errors": "log"}, "tool_errors is 'log'; allowed: raise, return"),
    ],
)
def test_an_invalid_value_is_named_with_the_valid_ones(given: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("(", r"\(")):
        checked(**given)


def test_code_is_text_and_tools_start_no_other_agent() -> None:
    with pytest.raises(TypeError, match="code is of type bytes"):
        checked_code(b"print(1)")
    with pytest.raises(ValueError, match="lone surrogate at character 7"):
        checked_code("print('\ud800')")
    with pytest.raises(ValueError, match="delegate_task, execute_code can't be called from a script"):
        checked_tools({"execute_code": print, "delegate_task": print, "one": print})
    given = {"one": print}
    assert checked_tools(given) == given and checked_tools(given) is not given


def one() -> dict[str, int]:
    return {"content": 1}


def test_a_script_that_goes_on_calling_ends_with_the_limit_in_its_last_words(
    env: BaseEnvironment, transport: TransportName
) -> None:
    """The usual form of a loop. It once ended with a KeyError, without the limit's name."""
    code = "from hermes_tools import one\nfor _ in range(5): print(one()['content'])"
    result = execute_code(code, env=env, tools={"one": one}, max_tool_calls=2, transport=transport)
    assert (result.status, result.exit_code, result.tool_calls_made) == ("error", 1, 2)
    assert result.limit == LIMIT.format("1 tool call was")
    assert result.error == f"Script exited with code 1. {result.limit}"
    assert result.output.startswith("1\n1\n--- stderr ---\n")
    assert "ToolError: one: the limit of 2 tool calls for one script (max_tool_calls) is reached" in result.stderr
    assert "KeyError" not in result.output


@pytest.mark.parametrize("way", ["raise", "return"])
def test_a_script_that_goes_on_behind_the_limit_names_it_as_well(env: BaseEnvironment, way: ToolErrors) -> None:
    code = """
from hermes_tools import ToolError, one
for _ in range(5):
    try: print(*one())
    except ToolError as error: print("raised")
"""
    result = execute_code(code, env=env, tools={"one": one}, max_tool_calls=2, tool_errors=way)
    refused = "raised" if way == "raise" else "error"
    assert (result.status, result.output) == ("success", f"content\ncontent\n{refused}\n{refused}\n{refused}\n")
    assert (result.limit, result.error) == (LIMIT.format("3 tool calls were"), None)


def test_a_limit_that_was_not_reached_is_not_named(env: BaseEnvironment) -> None:
    code = "from hermes_tools import one\none(); one()"
    result = execute_code(code, env=env, tools={"one": one}, max_tool_calls=2)
    assert (result.status, result.limit, result.tool_calls_made) == ("success", None, 2)
    result = execute_code("from hermes_tools import one\none(1)", env=env, tools={"one": one}, max_tool_calls=2)
    assert (result.status, result.limit, result.tool_calls_made) == ("error", None, 0)
