"""The example of pydantic-ai in docs/agents.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from page import DOCKER, run_example
from place import PLACE
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


def counted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    (*_, last) = messages[-1].parts
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"{int(str(last.content)) > 1}")])
    return ModelResponse(parts=[ToolCallPart("execute", {"command": "wc -l < /etc/passwd"})])


def test_the_pages_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_example(
        "pydantic-ai",
        tmp_path,
        {DOCKER: "**SETTINGS", '"anthropic:claude-sonnet-4-5"': "MODEL"},
        SETTINGS=dict(PLACE.settings),
        MODEL=FunctionModel(counted),
    )
    assert capsys.readouterr().out == "True\n"
