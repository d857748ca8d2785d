"""The tool calls of a script: in the result, and through callbacks."""

from __future__ import annotations

import dataclasses
import json
import logging
import threading
from contextvars import ContextVar
from pathlib import Path

import pytest

from code_execution import ToolCall, execute_code
from environments import BaseEnvironment, create_environment
from environments.approvals import Deny, ToolCallRequest


def double(number: int) -> int:
    if number == 3:
        raise LookupError("no three")
    return 2 * number


def test_each_call_is_reported_with_its_name_time_and_error(env: BaseEnvironment, transport: str) -> None:
    told: list[ToolCall] = []
    code = "from hermes_tools import double\nprint([double(n) for n in (1, 3)])"
    result = execute_code(code, env=env, tools={"double": double}, transport=transport, on_tool_call=told.append)  # type: ignore[arg-type]
    assert [(call.name, call.error) for call in told] == [("double", None), ("double", "double: LookupError: no three")]
    assert result.tool_calls == tuple(told)
    assert result.tool_calls_made == 2
    first, second = told
    assert 0 <= first.start <= first.start + first.seconds <= second.start <= result.duration_seconds


def test_the_calls_go_into_json(env: BaseEnvironment) -> None:
    result = execute_code("import hermes_tools; hermes_tools.double(1)", env=env, tools={"double": double})
    (call,) = json.loads(json.dumps(result.to_dict()))["tool_calls"]
    assert call == {"name": "double", "start": call["start"], "seconds": call["seconds"], "error": None}
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.tool_calls[0].name = "other"  # type: ignore[misc]


def test_tool_calls_hold_a_denied_call_and_no_refused_one(env: BaseEnvironment) -> None:
    def deny(request: ToolCallRequest) -> object:
        return Deny("not two") if request.arguments["number"] == 2 else None

    code = "from hermes_tools import double\ndouble()\ndouble(2)\ndouble(1)\ndouble(1)"
    tools, way = {"double": double}, "return"
    result = execute_code(code, env=env, tools=tools, before_tool_call=deny, max_tool_calls=2, tool_errors=way)
    denied = "double: denied, and nothing was run: not two"
    assert [(call.name, call.error) for call in result.tool_calls] == [("double", denied), ("double", None)]


CALLS_BY_MANY = """
import os, threading, hermes_tools
def call():
    for _ in range(5):
        try: hermes_tools.note()
        except hermes_tools.ToolError: pass
children = []
for _ in range(3):
    children.append(os.fork())
    if not children[-1]:
        threads = [threading.Thread(target=call) for _ in range(3)]
        for each in threads: each.start()
        for each in threads: each.join()
        os._exit(0)
for each in children: os.waitpid(each, 0)
forged = '{"token":"%s","id":"x","tool":"%s","args":["x"],"kwargs":{}}\\n'
for tool in ("terminal", "__class__"):
    print(hermes_tools._exchange((forged % (hermes_tools._own()[0], tool)).encode()).decode())
"""


def test_a_script_calls_the_tools_that_it_was_given_so_often_and_no_more(env: BaseEnvironment, transport: str) -> None:
    """Three processes with three threads each make 45 calls."""
    runs: list[None] = []
    tools = {"note": lambda: runs.append(None)}
    result = execute_code(CALLS_BY_MANY, env=env, tools=tools, max_tool_calls=10, transport=transport)  # type: ignore[arg-type]
    assert len(runs) == result.tool_calls_made == len(result.tool_calls) == 10
    assert result.output.count("there is no such tool") == 2
    assert "The limit of 10 tool calls (max_tool_calls) was reached: 35 tool calls were refused." in str(result)


def test_an_error_in_a_tools_result_is_the_calls_error(env: BaseEnvironment) -> None:
    code = "from hermes_tools import *\nread_file('missing'); terminal('exit 3')"
    missing, exited = execute_code(code, env=env).tool_calls
    assert missing.error
    assert "missing" in missing.error
    assert exited.error is None


def test_a_callback_that_raises_hurts_nothing(env: BaseEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    def broken(call: ToolCall) -> None:
        raise SystemExit("sk-live-5")

    caplog.set_level(logging.DEBUG)
    code = "from hermes_tools import double\nprint(double(1), double(2))"
    result = execute_code(code, env=env, tools={"double": double}, on_tool_call=broken)
    assert (result.status, result.output, len(result.tool_calls)) == ("success", "2 4\n", 2)
    assert "on_tool_call raised SystemExit" in caplog.text
    assert "sk-live-5" not in caplog.text


def test_a_call_that_outlasts_the_script_is_recorded_without_its_end(env: BaseEnvironment) -> None:
    told: list[ToolCall] = []
    called, release = threading.Event(), threading.Event()

    def stuck() -> None:
        called.set()
        release.wait(60)

    code = "import hermes_tools; hermes_tools.stuck()"
    result = execute_code(code, env=env, tools={"stuck": stuck}, interrupt=called, on_tool_call=told.append)
    release.set()
    for thread in threading.enumerate():
        if thread.name == "hermes-rpc-call":
            thread.join(20)
    (call,) = result.tool_calls
    assert result.status == "interrupted"
    assert "had not ended" in str(call.error)
    assert told == []


def test_errors_hold_no_secrets_and_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", "sk-live-12345678")

    def fail() -> None:
        raise RuntimeError("the key is sk-live-12345678 " + "x" * 5000)

    told: list[ToolCall] = []
    with create_environment("local", cwd=str(tmp_path)) as env:
        code = "import hermes_tools; hermes_tools.fail()"
        result = execute_code(code, env=env, tools={"fail": fail}, on_tool_call=told.append)
    (call,) = result.tool_calls
    assert told == [call]
    assert "the key is [REDACTED:WEATHER_API_KEY]" in str(call.error)
    assert len(str(call.error)) == 1000


@pytest.mark.parametrize("transport", ["socket", "file"])
def test_tools_and_callbacks_see_the_callers_context_variables(env: BaseEnvironment, transport: str) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nobody's")
    seen = []

    def tool() -> None:
        seen.append(variable.get())

    async def later() -> None:
        seen.append(variable.get())

    def called(call: object) -> None:
        seen.append(variable.get())

    token = variable.set("mine")
    code = "from hermes_tools import tool, later; tool(); later()"
    execute_code(code, env=env, tools={"tool": tool, "later": later}, on_tool_call=called, transport=transport)
    variable.reset(token)
    assert seen == ["mine"] * 4


def test_an_argument_that_is_no_environment_is_refused(env: BaseEnvironment) -> None:
    with pytest.raises(TypeError, match=r"env is of type object; give an environment, .*aexecute_code"):
        execute_code("pass", env=object())


def test_a_script_that_is_not_run_has_no_tool_calls(env: BaseEnvironment) -> None:
    env.gate.before_script = lambda request: False
    assert execute_code("print(1)", env=env).tool_calls == ()
