"""The example of smolagents in docs/agents.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from page import DOCKER, run_example
from place import PLACE
from smolagents.models import ChatMessage, MessageRole, Model

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


class Adding(Model):
    def generate(self, messages: list[ChatMessage], **_: object) -> ChatMessage:
        code = "<code>\nfinal_answer(price('Paris') + price('Rome'))\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=code)


def test_the_pages_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_example(
        "smolagents",
        tmp_path,
        {DOCKER: "**SETTINGS", "InferenceClientModel()": "MODEL"},
        SETTINGS=dict(PLACE.settings),
        MODEL=Adding(model_id="scripted"),
    )
    assert capsys.readouterr().out.endswith("5.0\n")
