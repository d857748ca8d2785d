"""A program's first command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import clocked, in_turn
from benchmarks.table import OURS, RAW, Row

PROGRAM = """
from environments import create_environment
with create_environment("local") as env:
    env.execute("true")
"""


def rows() -> Iterator[Row]:
    """Measure a whole process that imports `environments` and runs one command."""
    timers = {RAW: clocked(lambda: _python("pass")), OURS: clocked(lambda: _python(PROGRAM))}
    yield Row.of("import and a first command, local", in_turn(timers, seconds=4), goal=5, raw_is="starting Python")


def _python(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True)
