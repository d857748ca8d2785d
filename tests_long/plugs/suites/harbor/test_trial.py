"""A trial as `harbor` runs it: its oracle applies the solution of a task, and the task's tests give the reward."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from place import PLACE

PLUG = "hermes_env.plugs.harbor:HermesEnvironment"


def trial(task: Path, folder: Path, *more: str) -> dict[str, object]:
    """Run a trial, and return its result."""
    given = {name: value for name, value in PLACE.settings.items() if name != "image"}
    argv = [Path(sys.executable).with_name("harbor"), "trial", "start", "--path", task, "--trials-dir", folder]
    argv += ["--trial-name", "shout", "--env", PLUG, *more]
    for name, value in given.items():
        argv += ["--environment-kwarg", f"{name}={value}"]
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
