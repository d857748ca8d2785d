"""The stand-in as a program of its own, see docs/adding-a-backend.md."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "tests"


@pytest.mark.parametrize("module", ["standins.modal_server", "standins.daytona_server"])
def test_it_serves_in_the_background_of_a_shell(module: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", module],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout
    assert child.stdout.readline().startswith("export ")
    child.terminate()
    _, errors = child.communicate(timeout=60)
    assert "Traceback" not in errors
