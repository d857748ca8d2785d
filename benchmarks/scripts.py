"""One whole script on this machine: staged, run and cleaned up after."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import medians
from benchmarks.table import Row
from code_execution import execute_code
from environments import create_environment


def rows() -> Iterator[Row]:
    """Measure `execute_code`."""
    with create_environment("local") as env:
        raw, ours = medians(
            lambda: subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True),
            lambda: execute_code("print(1)", env=env),
            seconds=3,
        )
    yield Row(what='execute_code("print(1)"), local', raw=raw, ours=ours, goal=1.5, note="raw: starting Python")
