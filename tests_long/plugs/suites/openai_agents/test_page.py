"""The examples of docs/agents.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import ResponseFunctionShellToolCall
from page import run_example
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


def test_the_example_of_the_shell_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ResponseFunctionShellToolCall(
        id="s1", call_id="c1", status="completed", type="shell_call", action={"commands": ["wc -l < /etc/passwd"]}
    )
    model = ScriptedModel([[call], [assistant_message("Many.")]])
    names = run_example("openai_agents", 0, tmp_path, '"gpt-5.1"', model)
    (told,) = (item for item in names["done"].to_input_list() if item.get("type") == "shell_call_output")
    assert int(told["output"][0]["stdout"]) > 1
    assert capsys.readouterr().out == "Many.\n"


def test_the_example_of_a_sandbox_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "test_it.py").write_text("print('it ' + 'passes')")
    call = function_call("exec_command", {"cmd": "cd src && python3 test_it.py"}, call_id="1")
    model = ScriptedModel([[call], [assistant_message("They pass.")]])
    names = run_example("openai_agents", 1, tmp_path, '"gpt-5.1"', model)
    (told,) = (item.output for item in names["done"].new_items if item.type == "tool_call_output_item")
    assert "it passes" in told
    assert capsys.readouterr().out == "They pass.\n"
