"""The example of openai-agents in docs/agents.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseFunctionShellToolCall
from page import DOCKER, run_example
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


@pytest.fixture(autouse=True)
def untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")


def test_the_pages_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ResponseFunctionShellToolCall(
        id="s1", call_id="c1", status="completed", type="shell_call", action={"commands": ["wc -l < /etc/passwd"]}
    )
    model = ScriptedModel([[call], [assistant_message("Many.")]])
    names = run_example(
        "openai-agents",
        tmp_path,
        {DOCKER: "**SETTINGS", '"gpt-5.1"': "MODEL"},
        SETTINGS=dict(PLACE.settings),
        MODEL=model,
    )
    (told,) = (item for item in names["done"].to_input_list() if item.get("type") == "shell_call_output")
    assert int(told["output"][0]["stdout"]) > 1
    assert capsys.readouterr().out == "Many.\n"
