"""Records of scripts and of their tool calls."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from targets.run_record import RunRecord

from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment
from environments.errors import SettingsError
from hermes_env.schemas import handle_function_call

CALLING = """
import sys
from hermes_tools import terminal, write_file
print(terminal("echo from a tool")["output"], sys.argv[1:])
write_file("made", "contents")
sys.exit("it ends badly")
"""


@pytest.mark.parametrize("transport", ["relay", "file"])
def test_the_commands_of_a_tool_belong_to_its_call_and_the_call_to_its_script(
    env: BaseEnvironment, path: Path, transport: TransportName
):
    execute_code(CALLING, env=env, transport=transport, argv=["one", "two"], timeout=100, max_tool_calls=7)
    seen = RunRecord(path)
    script, (terminal, write) = seen.one("script"), seen.kind("tool_call")
    assert script["script"] == CALLING and script["name"] == "import sys" and script["arguments"] == ["one", "two"]
    assert (script["mode"], script["transport"], script["timeout"]) == ("project", transport, 100)
    assert (script["max_tool_calls"], script["tool_calls"], script.get("tools")) == (7, 2, None)
    assert (script["status"], script["exit_code"]) == ("error", 1)
    assert "it ends badly" in script["stderr"] and "from a tool" in script["output"] and script["error"]
    assert (terminal["tool"], terminal["name"], terminal["status"]) == ("terminal", "terminal", "success")
    assert terminal["arguments"]["command"] == "echo from a tool" and terminal["result"]["output"] == "from a tool\n"
    assert terminal["parent"] == write["parent"] == script["id"]
    assert seen.one("command")["parent"] == terminal["id"]
    assert write["arguments"] == {"path": "made", "content": "contents"} and write["result"]["bytes_written"] == 8
    assert not seen.kind("transfer"), (
        "a tool's write is part of its call, and the transfer of the script is not recorded"
    )
    assert {each["environment"] for each in seen.all} == {"local 1"}


def test_failed_tools_and_reported_errors_are_recorded(env: BaseEnvironment, path: Path):
    def broken() -> None:
        raise KeyError("missing")

    async def waits() -> dict[str, object]:
        await asyncio.sleep(0)
        return {"error": "it says so", "and": [1, 2.5, None, True]}

    tools = {"broken": broken, "waits": waits, "unsendable": object}
    execute_code("import hermes_tools as t\nt.broken()\nt.waits()\nt.unsendable()", env=env, tools=tools)
    seen = RunRecord(path)
    broke, reported, unsendable = seen.kind("tool_call")
    assert (broke["status"], broke["error_type"]) == ("failed", "KeyError") and "missing" in broke["error"]
    assert (reported["status"], reported["error"], reported["result"]["and"]) == (
        "error",
        "it says so",
        [1, 2.5, None, True],
    )
    assert unsendable["status"] == "error" and "can't be sent" in unsendable["error"]
    assert seen.one("script")["tools"] == sorted(tools)


def test_denied_calls_and_scripts_are_recorded_as_denied(env: BaseEnvironment, path: Path):
    code = "import hermes_tools\nhermes_tools.terminal('ls')"
    execute_code(code, env=env, before_tool_call=lambda request: "not that tool")
    execute_code(code, env=env, before_script=lambda request: "not that script")
    seen = RunRecord(path)
    assert [each["status"] for each in seen.kind("script")] == ["error", "denied"]
    call = seen.one("tool_call")
    assert call["status"] == "denied" and "not that tool" in call["error"] and not seen.kind("command")


def test_an_interrupted_script_and_its_calls_have_an_end_in_the_record(env: BaseEnvironment, path: Path):
    event = threading.Event()

    def called() -> str:
        event.set()
        return env.execute("sleep 1000").output

    execute_code("import hermes_tools\nhermes_tools.called()", env=env, tools={"called": called}, interrupt=event)
    seen = RunRecord(path)
    assert seen.one("script")["status"] == "interrupted" and seen.one("command")["status"] == "cancelled"
    assert all(each.end for each in seen.all)


def test_a_script_may_have_a_record_of_its_own_beside_its_environments(
    env: BaseEnvironment, path: Path, tmp_path: Path
):
    execute_code("print(1)", env=env, record=tmp_path / "own.jsonl")
    execute_code("print(2)", env=env, record=str(path))
    both, own = RunRecord(path), RunRecord(tmp_path / "own.jsonl")
    assert [each["script"] for each in both.kind("script")] == ["print(1)", "print(2)"], "one line for one file"
    assert [each["script"] for each in own.kind("script")] == ["print(1)"]


def test_a_record_of_a_script_that_cannot_be_written_is_refused_before_it_runs(env: BaseEnvironment, tmp_path: Path):
    with pytest.raises(SettingsError, match="cannot be written: Is a directory; give the path of another file"):
        execute_code("print(1)", env=env, record=tmp_path)


def test_the_tools_that_a_model_calls_itself_are_recorded(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    from environments.tasks import cleanup_environment

    monkeypatch.setenv("TERMINAL_RECORD", str(path))
    request.addfinalizer(lambda: cleanup_environment("recorded"))
    handle_function_call("terminal", {"command": "echo called"}, task_id="recorded")
    handle_function_call("read_file", {"path": "/no such file"}, task_id="recorded")
    handle_function_call("execute_code", {"code": "print(1)"}, task_id="recorded")
    seen = RunRecord(path)
    terminal, read = seen.kind("tool_call")
    assert terminal["arguments"]["command"] == "echo called" and terminal["result"]["exit_code"] == 0
    assert (read["tool"], read["status"]) == ("read_file", "error") and read["error"]
    assert seen.kind("command")[0]["parent"] == terminal["id"] and seen.one("script")["parent"] is None
