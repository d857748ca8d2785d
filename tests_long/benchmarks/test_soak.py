"""A short form of `make soak`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from targets.engines import PYTHON_IMAGE, require_docker

ROOT = Path(__file__).parents[2]
AMOUNT = {"SOAK_COMMANDS": "300", "SOAK_CALLS": "80", "SOAK_SCRIPTS": "8"}


@pytest.mark.parametrize("backend", ["local", "docker"])
def test_much_work_with_faults_leaves_nothing_and_makes_nothing_grow(backend: str) -> None:
    if backend == "docker":
        require_docker().close()
    given = {**os.environ, **AMOUNT, "SOAK_BACKEND": backend, "TERMINAL_DOCKER_IMAGE": PYTHON_IMAGE}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.soak"], cwd=ROOT, env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing has grown, and nothing is left" in done.stdout
