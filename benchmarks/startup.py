"""A program's first command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import medians
from benchmarks.table import Row

PROGRAM = """
from environments import create_environment
with create_environment("local") as env:
    env.execute("true")
"""


def rows() -> Iterator[Row]:
    """Measure a whole process that imports `environments` and runs one command."""
    raw, ours = medians(lambda: _python("pass"), lambda: _python(PROGRAM), seconds=4)
    yield Row(what="import and a first command, local", raw=raw, ours=ours, goal=6, note="raw: starting Python")


def _python(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)
