"""Scripts as a model would write them do their work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.project import Project

from environments import create_environment


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    with create_environment("local", cwd=str(folder)) as env:
        yield Project(env, str(folder))


def test_matches_in_yaml_files_are_collected_as_json(project: Project) -> None:
    project.put(
        {
            "deploy/web.yaml": "services:\n  web:\n    image: web:1.2\n",
            "job.yaml": f"image: job  # {'very ' * 100}long\n",
            "notes.txt": "image: not asked for\n",
        }
    )
    result = project.run("collect_matches.py")
    assert result.status == "success", result.output
    first, second = json.loads(result.output)
    assert first == {"file": "deploy/web.yaml", "line": 3, "text": "    image: web:1.2"}
    assert (second["file"], len(second["text"])) == ("job.yaml", 200)
    assert [call.name for call in result.tool_calls] == ["search_files"]


def test_a_call_is_renamed_in_all_files_and_a_failed_patch_is_reported(project: Project) -> None:
    project.put(
        {
            "a.py": "old_api_call(1)\nold_api_call(2)\n",
            "deploy/b.py": "x = old_api_call\n",
            "c.md": "Nothing of it here.\n",
            "large.py": "old_api_call\n" + "\n" * 500_000,
        }
    )
    result = project.run("rename_call.py")
    assert result.status == "success", result.output
    assert project.env.read_bytes(f"{project.path}/a.py") == b"new_api_call(1)\nnew_api_call(2)\n"
    assert project.env.read_bytes(f"{project.path}/deploy/b.py") == b"x = new_api_call\n"
    assert result.output.startswith("large.py: ")
    assert result.output.endswith("patched 2 of 3 files\n")
    assert [call.error is None for call in result.tool_calls] == [True, True, True, False]
