from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from cost.budget import ON_THIS_MACHINE, excess

ROOT = Path(__file__).parents[2]


def test_nothing_costs_more_than_its_budget() -> None:
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *rights, "--pid", "--fork", "--mount-proc", sys.executable, "-m", "cost.program"]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests_long")))
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    costs = json.loads(done.stdout)
    assert costs.keys() == ON_THIS_MACHINE.keys()
    assert [line for thing in costs for line in excess(thing, {"started": costs[thing]}, ON_THIS_MACHINE[thing])] == []


def test_each_excess_over_the_budget_is_a_line() -> None:
    counted = {"round_trips": 3.0, "processes": 0.5, "streams": 1}
    assert excess("execute on Docker", counted, {"round_trips": 1, "processes": 0, "streams": 1}) == [
        "execute on Docker: 3 round trips, at most 1",
        "execute on Docker: 0.5 processes started, at most 0",
    ]
