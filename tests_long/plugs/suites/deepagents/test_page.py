"""The example of deepagents in docs/agents.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from page import DOCKER, run_example
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


class Scripted(GenericFakeChatModel):
    def bind_tools(self, *_: object, **__: object) -> Any:
        return self


def test_the_pages_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = {"name": "execute", "args": {"command": "wc -l < /etc/passwd"}, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("That many.")]))
    names = run_example(
        "deepagents",
        tmp_path,
        {DOCKER: "**SETTINGS", '"anthropic:claude-sonnet-4-5"': "MODEL"},
        SETTINGS=dict(PLACE.settings),
        MODEL=model,
    )
    *_, told, answer = names["done"]["messages"]
    assert int(told.content.split()[0]) > 1
    assert capsys.readouterr().out == f"{answer.content}\n" == "That many.\n"
