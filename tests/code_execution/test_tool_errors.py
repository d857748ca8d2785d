"""What a script sees of tools that fail and of calls that are refused, on every transport."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from code_execution import execute_code
from environments import BaseEnvironment


def one(number: int = 1) -> int:
    return number


def fail() -> None:
    raise RuntimeError("out of paper")


CALLS = """
from hermes_tools import ToolError, {tool}
for _ in range({times}):
    try: print({tool}({arguments}))
    except ToolError as error: print("raised", error)
"""


def calls(tool: str, arguments: str = "", times: int = 1) -> str:
    return CALLS.format(tool=tool, arguments=arguments, times=times)


@pytest.mark.parametrize("tool_errors", ["return", "raise"])
def test_a_tool_that_fails_has_a_result_that_says_so(env: BaseEnvironment, transport: str, tool_errors: str) -> None:
    result = execute_code(calls("fail"), env=env, tools={"fail": fail}, transport=transport, tool_errors=tool_errors)  # type: ignore[arg-type]
    assert result.output == "{'error': 'fail: RuntimeError: out of paper'}\n"


@pytest.mark.parametrize(("tool_errors", "begins"), [("return", "{'error': 'one: "), ("raise", "raised one: ")])
def test_after_the_limit_calls_are_refused(env: BaseEnvironment, transport: str, tool_errors: str, begins: str) -> None:
    way: dict[str, str] = {"transport": transport, "tool_errors": tool_errors}
    result = execute_code(calls("one", times=4), env=env, tools={"one": one}, max_tool_calls=2, **way)  # type: ignore[arg-type]
    one_, two, *refused = result.output.splitlines()
    assert (one_, two, len(refused)) == ("1", "1", 2)
    assert all(line.startswith(begins + "the limit of 2 tool calls") for line in refused)
    assert result.tool_calls_made == 2


@pytest.mark.parametrize("arguments", ["1, 2", "n=1", "number={1}", "number=float('nan')"])
def test_wrong_arguments_are_refused_and_are_no_call(env: BaseEnvironment, arguments: str) -> None:
    returned = execute_code(calls("one", arguments), env=env, tools={"one": one})
    assert returned.output.startswith(("{'error': 'one: wrong arguments: ", "{'error': \"one: wrong arguments: "))
    raised = execute_code(calls("one", arguments), env=env, tools={"one": one}, tool_errors="raise")
    assert raised.output.startswith("raised one: wrong arguments: ")
    assert returned.tool_calls_made == raised.tool_calls_made == 0


def test_a_tool_that_is_not_there_is_refused(env: BaseEnvironment) -> None:
    code = "import hermes_tools\nprint(hermes_tools._call('delegate', {}, {}, (), {}))"
    result = execute_code(code, env=env, tools={"one": one})
    assert result.output == "{'error': 'delegate: there is no such tool; those that can be called: one'}\n"


def test_the_way_comes_from_the_settings_and_an_argument_goes_before(
    env: BaseEnvironment, configure: Callable[[str], None]
) -> None:
    configure("code_execution: {tool_errors: raise}")
    code = calls("one", "n=1")
    assert execute_code(code, env=env, tools={"one": one}).output.startswith("raised ")
    assert execute_code(code, env=env, tools={"one": one}, tool_errors="return").output.startswith("{'error'")


def test_tools_that_are_gone_raise_either_way(env: BaseEnvironment) -> None:
    code = """
import hermes_tools
hermes_tools._SOCKET_PATH += "gone"
try: hermes_tools.one()
except hermes_tools.ToolError as error: print(error)
"""
    result = execute_code(code, env=env, tools={"one": one}, transport="socket")
    assert result.output.startswith("one: the tools can't be reached: ")


def test_what_a_model_writes_to_look_for_errors_works(env: BaseEnvironment) -> None:
    code = """
from hermes_tools import read_file
for path in ("there", "missing"):
    result = read_file(path)
    print(path, "error" not in str(result))
"""
    env.write_bytes("there", b"text\n")
    assert execute_code(code, env=env).output == "there True\nmissing False\n"


@pytest.mark.parametrize("call", ["one(n=1)", "one(2)"])
def test_an_error_that_nobody_catches_takes_few_lines(env: BaseEnvironment, transport: str, call: str) -> None:
    code = f"from hermes_tools import one\n{call}"
    result = execute_code(
        code,
        env=env,
        tools={"one": one},
        max_tool_calls=0,
        transport=transport,  # type: ignore[arg-type]
        tool_errors="raise",
    )
    said = result.stderr.splitlines()
    assert len(said) <= 4
    assert "hermes_tools.py" not in result.stderr
    assert said[-1].startswith("hermes_tools.ToolError: one: ")


def test_an_import_of_what_is_not_there_says_what_there_is(env: BaseEnvironment) -> None:
    result = execute_code("from hermes_tools import terminal, web_serch", env=env)
    assert "ImportError: cannot import name 'web_serch' from 'hermes_tools'; there are: ToolError, " in result.output
    assert result.output.endswith("did you mean 'web_search'?")
