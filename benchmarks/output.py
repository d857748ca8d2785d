"""A command with very large output."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from benchmarks.measure import Times, timed
from benchmarks.memory import forget_peak, peak_bytes
from benchmarks.table import Row
from environments import create_environment

COMMAND = "head -c 1000000000 /dev/zero"
READ_SIZE = 256 * 1024
ROUNDS = 3
MOST = 20e6
"""The goal of this process's growth, in bytes."""


def rows() -> Iterator[Row]:
    """Measure the reading of 1 GB, and the growth of this process."""
    raw, ours, grown = [], [], []
    with create_environment("local") as env:
        env.execute("true")
        for _ in range(ROUNDS):
            raw.append(timed(_read_from_pipe))
            before = forget_peak()
            ours.append(timed(lambda: env.execute(COMMAND)))
            grown.append(peak_bytes() - before)
    missed = ", **missed**" if max(grown) > MOST else ""
    yield Row(
        what="output of 1 GB, local",
        raw=Times.of(raw),
        ours=Times.of(ours),
        goal=1.3,
        raw_is="reading the pipe",
        note=f"this process grew by {max(grown) / 1e6:.0f} MB at most (goal: {MOST / 1e6:.0f} MB{missed})",
    )


def _read_from_pipe() -> None:
    with subprocess.Popen(COMMAND.split(), stdout=subprocess.PIPE, bufsize=0) as child:
        assert child.stdout
        while child.stdout.read(READ_SIZE):
            pass
