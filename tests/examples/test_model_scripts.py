"""Scripts as a model would write them do their work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from code_execution import ExecutionResult, execute_code
from environments import BaseEnvironment, create_environment

SCRIPTS = Path(__file__).parents[2] / "examples" / "scripts"


@dataclass(frozen=True)
class Place:
    """An environment, and a directory in it that is a project's."""

    env: BaseEnvironment
    project: str

    def put(self, files: dict[str, str | bytes]) -> None:
        self.env.execute_oneshot(f"mkdir -p {self.project}/deploy")
        for name, content in files.items():
            self.env.write_bytes(f"{self.project}/{name}", content if isinstance(content, bytes) else content.encode())

    def run(self, script: str) -> ExecutionResult:
        """Run a script in the project's directory; `/project` is that."""
        self.env.execute(f"cd {self.project}")
        code = (SCRIPTS / script).read_text().replace("/project", self.project)
        return execute_code(code, env=self.env)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    with create_environment("local", cwd=str(project)) as env:
        yield Place(env, str(project))


def test_what_yaml_files_say_is_collected_as_json(place: Place) -> None:
    place.put(
        {
            "deploy/web.yaml": "services:\n  web:\n    image: web:1.2\n",
            "job.yaml": f"image: job  # {'very ' * 100}long\n",
            "notes.txt": "image: not asked for\n",
        }
    )
    result = place.run("collect_matches.py")
    assert result.status == "success", result.output
    first, second = json.loads(result.output)
    assert first == {"file": "deploy/web.yaml", "line": 3, "text": "    image: web:1.2"}
    assert (second["file"], len(second["text"])) == ("job.yaml", 200)
    assert [call.name for call in result.tool_calls] == ["search_files"]


def test_a_call_is_renamed_wherever_it_is_and_a_file_that_cannot_be_patched_is_told_of(place: Place) -> None:
    place.put(
        {
            "a.py": "old_api_call(1)\nold_api_call(2)\n",
            "deploy/b.py": "x = old_api_call\n",
            "c.md": "Nothing of it here.\n",
            "large.py": "old_api_call\n" + "\n" * 500_000,
        }
    )
    result = place.run("rename_call.py")
    assert result.status == "success", result.output
    assert place.env.read_bytes(f"{place.project}/a.py") == b"new_api_call(1)\nnew_api_call(2)\n"
    assert place.env.read_bytes(f"{place.project}/deploy/b.py") == b"x = new_api_call\n"
    assert result.output.startswith("large.py: ")
    assert result.output.endswith("patched 2 of 3 files\n")
    assert [call.error is None for call in result.tool_calls] == [True, True, True, False]
