"""One command on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from benchmarks.measure import medians
from benchmarks.raw_process import NOTHING, PipedProcess
from benchmarks.table import Row
from environments import create_environment

NOTE = "raw: a line to one bash over pipes; today: `bash -lc true` each"


def rows() -> Iterator[Row]:
    """Measure `execute` and `execute_oneshot`."""
    with create_environment("local") as env, PipedProcess(["bash", "--norc", "--noprofile"]) as bash:
        raw, session, oneshot, today = medians(
            lambda: bash.round_trip(NOTHING),
            lambda: env.execute("true"),
            lambda: env.execute_oneshot("true"),
            lambda: subprocess.run(["bash", "-lc", "true"], check=True),
            seconds=3,
        )
    yield Row(what='execute("true"), local', raw=raw, ours=session, goal=5, today=today, note=NOTE)
    yield Row(what='execute_oneshot("true"), local', raw=raw, ours=oneshot, today=today, note="the same")
