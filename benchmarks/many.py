"""Very many environments at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks.measure import timed
from benchmarks.memory import resident_bytes
from benchmarks.table import Row
from environments import create_environment

COUNT = 200


def rows() -> Iterator[Row]:
    """Measure what each of them takes, in a fresh process: in this one memory may lie free from before."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        taken, memory, threads = fresh.submit(_measured).result()
    note = f"in this process, each: {memory / 1e6:.2f} MB (goal: below 1), {threads:.2g} threads (goal: below 2)"
    yield Row(what=f"first command of {COUNT}, local", ours=taken, note=note)


def _measured() -> tuple[float, float, float]:
    """Return seconds, bytes and threads for each."""
    with contextlib.ExitStack() as opened:
        opened.enter_context(create_environment("local")).execute("true")
        memory, threads = resident_bytes(), threading.active_count()
        envs = [opened.enter_context(create_environment("local")) for _ in range(COUNT)]
        taken = timed(lambda: [env.execute("true") for env in envs])
        grown, started = resident_bytes() - memory, threading.active_count() - threads
        return taken / COUNT, grown / COUNT, started / COUNT
