"""The example of inspect_ai in docs/agents.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from inspect_ai.model import get_model
from mocked_task import answer
from page import run_example
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


def test_the_pages_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sandbox.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(dict(PLACE.settings)))))
    model = get_model("mockllm/model", custom_outputs=answer)
    words = {'"docker"': repr(str(tmp_path / "sandbox.yaml")), '"openai/gpt-5"': "MODEL"}
    names = run_example("inspect_ai", tmp_path, words, MODEL=model)
    assert names["log"].results.scores[0].metrics["accuracy"].value == 1
    assert capsys.readouterr().out.endswith("success\n")
