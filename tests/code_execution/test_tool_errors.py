"""Failed tools and refused calls in a script, on every transport."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from code_execution import execute_code
from environments import BaseEnvironment
from rpc import ToolErrors


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


def test_a_failed_tool_has_a_result_with_the_error(env: BaseEnvironment, transport: str) -> None:
    way: dict[str, str] = {"transport": transport, "tool_errors": "return" if transport == "relay" else "raise"}
    result = execute_code(calls("fail"), env=env, tools={"fail": fail}, **way)  # type: ignore[arg-type]
    assert result.output == "{'error': 'fail: RuntimeError: out of paper'}\n"


def test_after_the_limit_calls_are_refused(env: BaseEnvironment, transport: str) -> None:
    for tool_errors, begins in (("return", "{'error': 'one: "), ("raise", "raised one: ")):
        way: dict[str, str] = {"transport": transport, "tool_errors": tool_errors}
        result = execute_code(calls("one", times=4), env=env, tools={"one": one}, max_tool_calls=2, **way)  # type: ignore[arg-type]
        one_, two, *refused = result.output.splitlines()
        assert (one_, two, len(refused)) == ("1", "1", 2)
        assert all(line.startswith(begins + "the limit of 2 tool calls") for line in refused)
        assert result.tool_calls_made == 2


def test_wrong_arguments_are_refused_and_are_no_call(env: BaseEnvironment) -> None:
    code = "\n".join(calls("one", arguments) for arguments in ("1, 2", "n=1", "number={1}", "number=float('nan')"))
    returned = (
        execute_code(code, env=env, tools={"one": one}, tool_errors="return").output.replace('"', "'").splitlines()
    )
    raised = execute_code(code, env=env, tools={"one": one})
    assert [line.startswith("{'error': 'one: wrong arguments: ") for line in returned] == [True] * 4
    assert [line.startswith("raised one: wrong arguments: ") for line in raised.output.splitlines()] == [True] * 4
    assert raised.tool_calls_made == 0


def test_a_tool_that_is_not_there_is_refused(env: BaseEnvironment) -> None:
    code = "import hermes_tools\nprint(hermes_tools._call('delegate', {}, {}, (), {}))"
    said = "delegate: there is no such tool; available tools: one"
    returned = execute_code(code, env=env, tools={"one": one}, tool_errors="return")
    assert returned.output == f"{{'error': '{said}'}}\n"
    raised = execute_code(code, env=env, tools={"one": one})
    assert raised.stderr.endswith(f"hermes_tools.ToolError: {said}\n")


def test_tool_errors_comes_from_the_settings_unless_it_is_an_argument(
    env: BaseEnvironment, configure: Callable[[str], None]
) -> None:
    code = calls("one", "n=1")
    assert execute_code(code, env=env, tools={"one": one}).output.startswith("raised ")
    configure("code_execution: {tool_errors: return}")
    assert execute_code(code, env=env, tools={"one": one}).output.startswith("{'error'")
    assert execute_code(code, env=env, tools={"one": one}, tool_errors="raise").output.startswith("raised ")


@pytest.mark.parametrize("way", ["raise", "return"])
def test_tools_that_are_gone_raise_either_way(env: BaseEnvironment, way: ToolErrors) -> None:
    code = """
import hermes_tools
print(hermes_tools.one())
hermes_tools._connections.mine = None
hermes_tools._own()[1] += "gone"
try: hermes_tools.one()
except hermes_tools.ToolError as error: print(error)
"""
    result = execute_code(code, env=env, tools={"one": one}, transport="socket", tool_errors=way)
    assert result.output.startswith("1\none: the tools can't be reached: ")


def test_a_models_usual_error_checks_work(env: BaseEnvironment) -> None:
    code = """
from hermes_tools import read_file
for path in ("there", "missing"):
    result = read_file(path)
    print(path, "error" not in str(result))
"""
    env.write_bytes("there", b"text\n")
    assert execute_code(code, env=env).output == "there True\nmissing False\n"
