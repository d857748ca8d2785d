"""A trial by `harbor`: the oracle applies the task's solution, and the task's tests give the reward."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from page import example, replaced
from place import PLACE


def trial(task: Path, folder: Path, *more: str) -> dict[str, object]:
    """Run a trial by the command of docs/agents.md, and return its result."""
    settings = [f"--environment-kwarg {name}={value}" for name, value in PLACE.settings.items() if name != "image"]
    words = {
        "TASK": str(task),
        "--environment-kwarg backend=docker": " ".join(settings),
        "--agent oracle": "",
        "\\\n": "",
    }
    _, *argv = shlex.split(replaced(example("Harbor"), words))
    argv = [str(Path(sys.executable).with_name("harbor")), *argv, "--trials-dir", str(folder)]
    argv += ["--trial-name", "shout", *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "shout" / "result.json").read_text())


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), ("nop", 0.0)])
def test_the_oracle_is_rewarded_and_who_does_nothing_is_not(
    task: Path, tmp_path: Path, agent: str, reward: float
) -> None:
    result = trial(task, tmp_path, "--agent", agent)
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    assert (tmp_path / "shout" / "verifier" / "reward.txt").read_text() == f"{reward:g}\n"
