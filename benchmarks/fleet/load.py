"""The load of the real driver of a batch, with journal, limits and progress."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.engine import Fate, Fleet, SimulatedEngine
from benchmarks.memory import resident_bytes
from environments.loop import IDLE_LIMIT
from hermes_env.batch import Plan, Result, run_batch

SETTLING = 1.5
"""Task times before a measurement begins, as all tasks begin together at first."""
SAMPLE = 2000


@dataclass(frozen=True, slots=True)
class Load:
    """The measurements of a fleet."""

    workers: int
    rate: float
    """Results a second."""
    wanted: float
    """Results a second of an ideal driver, which takes no time."""
    driver: float
    """The driver thread's share of a core."""
    simulation: float
    """The simulated engine's share of a core in this process; a real engine has none."""
    delays: tuple[float, float, float]
    """Seconds from the end of a task to its result in the file: tenth percentile, median, ninetieth percentile."""
    memory: float
    """Growth of the driver's process in bytes, with all workers at work."""


class _Watch:
    """Counts results; called by the driver's thread.

    Args:
        begins: The start of counting, on the monotonic clock.
    """

    def __init__(self, begins: float) -> None:
        self._begins = begins
        self.engine: SimulatedEngine | None = None
        self.delays: list[float] = []
        self._first: tuple[float, float, float] | None = None
        self._last = (0.0, 0.0, 0.0)

    def result(self, result: Result) -> None:
        """Count a result."""
        now = time.monotonic()
        reported_at = self.engine.reported_at.pop(result.id, None) if self.engine else None
        if reported_at is None or now < self._begins or self.engine is None:
            return
        self._last = (now, time.thread_time(), self.engine.cpu_seconds)
        if self._first is None:
            self._first = self._last
        else:
            self.delays.append(now - reported_at)

    def elapsed(self) -> tuple[float, float, float]:
        """Return the elapsed seconds, and the processor seconds of the driver and of the engine."""
        first = self._first or self._last
        seconds, driver, engine = (last - before for last, before in zip(self._last, first, strict=True))
        return max(seconds, 1e-9), driver, engine


def measure_load(fleet: Fleet, workers: int, seconds: float) -> Load:
    """Run a fleet for a while, and return the measurements.

    Args:
        fleet: The simulated fleet.
        workers: The number of environments.
        seconds: The time of measurement. Before that, the fleet runs until its tasks have spread.
    """
    cycle = _cycle(fleet)
    settling = max(2.0, SETTLING * cycle)
    before = resident_bytes()
    watch = _Watch(time.monotonic() + settling)
    memory: list[int] = []

    def engine(plan: Plan) -> SimulatedEngine:
        watch.engine = fleet.engine(plan)
        return watch.engine

    sampler = threading.Timer(settling, lambda: memory.append(resident_bytes()))
    sampler.start()
    with tempfile.TemporaryDirectory() as folder:
        run_batch(
            _tasks(), "local", workers=workers, engine=engine, out=Path(folder) / "results.jsonl",
            on_result=watch.result, progress=lambda _: None, budget=settling + seconds,
        )  # fmt: skip
    sampler.join()
    taken, driver, simulation = watch.elapsed()
    deciles = statistics.quantiles(watch.delays, n=10) if len(watch.delays) > 1 else [0.0] * 9
    return Load(
        workers,
        len(watch.delays) / taken,
        workers / cycle,
        driver / taken,
        simulation / taken,
        (deciles[0], deciles[4], deciles[8]),
        max(memory) - before,
    )


def _cycle(fleet: Fleet) -> float:
    """Return the average seconds of a worker for a task."""
    chance = random.Random(fleet.seed)  # not secret
    return statistics.fmean(Fate.of(fleet, str(chance.random())).freed for _ in range(SAMPLE))


def _tasks() -> Iterator[dict[str, object]]:
    for number in itertools.count():
        yield {"id": str(number), "command": "make test"}


@dataclass(frozen=True, slots=True)
class RealLoad:
    """The cost of a process with many real environments of this machine at work."""

    workers: int
    memory: float
    """Bytes."""
    threads: int
    rate: float
    """Tasks a second, each in its own environment, on this machine's cores."""


def measure_real_load(workers: int) -> RealLoad:
    """Keep environments of this machine at work, each with a command, and return the cost.

    Args:
        workers: The number of environments.
    """
    before, threads = resident_bytes(), threading.active_count()
    found: list[tuple[int, int]] = []
    has_ended = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        begun, gate = Path(folder) / "begun", Path(folder) / "gate"
        os.mkfifo(gate)

        def release_when_all_run() -> None:
            while not begun.exists() or begun.stat().st_size < workers:
                time.sleep(0.02)
            time.sleep(IDLE_LIMIT + 0.5)  # idle worker threads end after IDLE_LIMIT
            found.append((resident_bytes() - before, threading.active_count() - threads - 1))
            while not has_ended.is_set():
                with contextlib.suppress(OSError):  # the last reader has ended
                    os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))  # end of file for each command that reads
                time.sleep(0.05)

        releasing = threading.Thread(target=release_when_all_run)
        releasing.start()
        began = time.monotonic()
        tasks = [{"id": number, "command": f"echo >>{begun}; cat {gate}"} for number in range(workers)]
        summary = run_batch(tasks, "local", workers=workers)
        taken = time.monotonic() - began - IDLE_LIMIT - 0.5
        has_ended.set()
        releasing.join()
    assert summary.counts == {"success": workers}
    return RealLoad(workers, *found[0], workers / taken)
