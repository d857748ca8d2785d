"""What the record says of scripts and of the tools that they call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from targets.engines import PYTHON_IMAGE, require_docker
from targets.recorded import Recorded

from code_execution import execute_code
from code_execution.script_run import TransportName
from environments import BaseEnvironment, CancelScope, create_environment
from environments.errors import SettingsError
from hermes_env.schemas import handle_function_call

CALLING = """
import sys
from hermes_tools import terminal, write_file
print(terminal("echo from a tool")["output"], sys.argv[1:])
write_file("made", "contents")
sys.exit("it ends badly")
"""


@pytest.mark.parametrize("transport", ["socket", "relay", "file"])
def test_the_commands_of_a_tool_belong_to_its_call_and_that_to_its_script(
    env: BaseEnvironment, path: Path, transport: TransportName
):
    execute_code(CALLING, env=env, transport=transport, argv=["one", "two"], timeout=100, max_tool_calls=7)
    seen = Recorded(path)
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
    assert {each["parent"] for each in seen.kind("transfer")} == {write["id"]}, "getting the script there is not told"
    assert {each["environment"] for each in seen.all} == {"local 1"}


def test_what_a_script_does_in_a_container_is_recorded_in_the_same_way(path: Path):
    require_docker().close()
    with create_environment("docker", image=PYTHON_IMAGE, record=path) as env:
        execute_code("from hermes_tools import terminal\nterminal('hostname')", env=env)
    seen = Recorded(path)
    assert ["script", "tool_call", "command"] in seen.ways_down() and ["script", "start"] in seen.ways_down()
    assert {each["environment"] for each in seen.all} == {"docker 1"}
    assert seen.one("start")["target"].startswith("container ")
    assert any("start" in each["text"] for each in seen.of("note")), "what a start is doing"


def test_a_tool_that_fails_or_says_that_it_did_is_recorded_so(env: BaseEnvironment, path: Path):
    def broken() -> None:
        raise KeyError("missing")

    async def waits() -> dict[str, object]:
        await asyncio.sleep(0)
        return {"error": "it says so", "and": [1, 2.5, None, True]}

    tools = {"broken": broken, "waits": waits, "unsendable": object}
    execute_code("import hermes_tools as t\nt.broken()\nt.waits()\nt.unsendable()", env=env, tools=tools)
    seen = Recorded(path)
    broke, said, unsendable = seen.kind("tool_call")
    assert (broke["status"], broke["error_type"]) == ("failed", "KeyError") and "missing" in broke["error"]
    assert (said["status"], said["error"], said["result"]["and"]) == ("error", "it says so", [1, 2.5, None, True])
    assert unsendable["status"] == "error" and "can't be sent" in unsendable["error"]
    assert seen.one("script")["tools"] == sorted(tools)


def test_a_call_that_is_not_allowed_and_a_script_that_is_not_are_recorded_as_denied(env: BaseEnvironment, path: Path):
    code = "import hermes_tools\nhermes_tools.terminal('ls')"
    execute_code(code, env=env, before_tool_call=lambda request: "not that tool")
    execute_code(code, env=env, before_script=lambda request: "not that script")
    seen = Recorded(path)
    assert [each["status"] for each in seen.kind("script")] == ["success", "denied"]
    call = seen.one("tool_call")
    assert call["status"] == "denied" and "not that tool" in call["error"] and not seen.kind("command")


def test_a_tool_may_be_async_or_work_in_threads_and_its_commands_belong_to_it(env: BaseEnvironment, path: Path):
    async def beside() -> str:
        return (await asyncio.to_thread(env.execute_oneshot, "echo beside")).output

    code = "import hermes_tools\nprint(hermes_tools.beside())"
    assert "beside" in execute_code(code, env=env, tools={"beside": beside}).output
    assert Recorded(path).ways_down()[-1] == ["script", "tool_call", "command"]


def test_a_script_that_is_ended_has_an_end_and_so_have_its_calls(env: BaseEnvironment, path: Path):
    event = threading.Event()

    def called() -> str:
        event.set()
        return env.execute("sleep 1000").output

    execute_code("import hermes_tools\nhermes_tools.called()", env=env, tools={"called": called}, interrupt=event)
    seen = Recorded(path)
    assert seen.one("script")["status"] == "interrupted" and seen.one("command")["status"] == "cancelled"
    assert all(each.end for each in seen.all)


def test_one_script_alone_is_recorded_with_what_its_tools_do_in_other_environments(path: Path):
    def elsewhere() -> str:
        return other.execute("echo elsewhere").output

    with create_environment("local") as env, create_environment("local", task_id="other") as other:
        env.execute("echo before")
        execute_code(
            "import hermes_tools\nhermes_tools.elsewhere()", env=env, tools={"elsewhere": elsewhere}, record=path
        )
        env.execute("echo behind")
        other.execute("echo behind")
    seen = Recorded(path)
    assert [each["command"] for each in seen.kind("command")] == ["echo elsewhere"]
    assert (seen.one("script")["environment"], seen.one("command")["environment"]) == ("local 1", "local 2")
    assert seen.one("command")["task"] == "other"


def test_a_script_may_have_a_record_of_its_own_beside_its_environments(
    env: BaseEnvironment, path: Path, tmp_path: Path
):
    execute_code("print(1)", env=env, record=tmp_path / "own.jsonl")
    execute_code("print(2)", env=env, record=str(path))
    both, own = Recorded(path), Recorded(tmp_path / "own.jsonl")
    assert [each["script"] for each in both.kind("script")] == ["print(1)", "print(2)"], "one line for one file"
    assert [each["script"] for each in own.kind("script")] == ["print(1)"]


def test_what_is_called_in_a_cancelled_scope_is_recorded_as_cancelled(env: BaseEnvironment, path: Path):
    scope = CancelScope()

    def cancel(text: str) -> None:
        scope.cancel()

    with scope.active():
        env.execute("echo begun; sleep 1000", on_output=cancel)
    assert Recorded(path).one("command")["status"] == "cancelled"


@pytest.mark.parametrize("record", ["", 3])
def test_a_record_that_is_no_path_is_refused(env: BaseEnvironment, record: Any):
    with pytest.raises(SettingsError, match="give the path of a file"):
        execute_code("pass", env=env, record=record)


def test_a_record_of_a_script_that_cannot_be_written_is_refused_before_it_runs(env: BaseEnvironment, tmp_path: Path):
    with pytest.raises(SettingsError, match="cannot be written: Is a directory; give the path of another file"):
        execute_code("print(1)", env=env, record=tmp_path)


def test_the_tools_that_a_model_calls_itself_are_recorded(
    path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    from environments.manager import cleanup_environment

    monkeypatch.setenv("TERMINAL_RECORD", str(path))
    request.addfinalizer(lambda: cleanup_environment("recorded"))
    handle_function_call("terminal", {"command": "echo called"}, task_id="recorded")
    handle_function_call("read_file", {"path": "/no such file"}, task_id="recorded")
    handle_function_call("execute_code", {"code": "print(1)"}, task_id="recorded")
    seen = Recorded(path)
    terminal, read = seen.kind("tool_call")
    assert terminal["arguments"]["command"] == "echo called" and terminal["result"]["exit_code"] == 0
    assert (read["tool"], read["status"]) == ("read_file", "error") and read["error"]
    assert seen.kind("command")[0]["parent"] == terminal["id"] and seen.one("script")["parent"] is None
