"""All fleets of `make fleet`, and the JSON of their measurements."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Self

from benchmarks.fleet.costs import BACKENDS, Spread
from benchmarks.fleet.engine import Fleet
from benchmarks.fleet.load import Load, RealLoad, measure_load, measure_real_load
from benchmarks.fresh_process import in_fresh_process
from benchmarks.machine import machine

WORKERS = (10, 100, 1_000, 3_000, 10_000)
REAL_WORKERS = (100, 300, 1_000)
SECONDS = 4.0
"""Seconds of measurement of each fleet."""
FLEETS = {
    "Modal, tasks of 1 s": Fleet(BACKENDS["modal"], Spread(1, 3)),
    "Docker, tasks of 1 s": Fleet(BACKENDS["docker"], Spread(1, 3)),
    "Docker, tasks of 0.1 s": Fleet(BACKENDS["docker"], Spread(0.1, 0.3)),
    "SSH, tasks of 0.1 s": Fleet(BACKENDS["ssh"], Spread(0.1, 0.3)),
    "local, tasks of 0.01 s": Fleet(BACKENDS["local"], Spread(0.01, 0.03)),
}
"""By name, with the median time of a task. Every tenth task takes three times as long."""
SEEN = "Docker, tasks of 1 s"
"""The fleet with rate, delays and memory on the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The measurements of all fleets, with date and machine."""

    date: str
    machine: dict[str, str]
    seconds: float
    """Seconds of the whole run."""
    loads: Mapping[str, Sequence[Load]]
    """By the fleet's name, for each number of workers."""
    real: Sequence[RealLoad]

    @classmethod
    def measure(cls) -> Self:
        """Run all fleets in turn, each in a process of its own."""
        began = time.monotonic()
        loads = {
            name: [in_fresh_process(measure_load, fleet, workers, SECONDS) for workers in WORKERS]
            for name, fleet in FLEETS.items()
        }
        real = [in_fresh_process(measure_real_load, workers) for workers in REAL_WORKERS]
        return cls(
            date=datetime.now(UTC).strftime("%Y-%m-%d"),
            machine=machine(),
            seconds=round(time.monotonic() - began),
            loads=loads,
            real=real,
        )

    def to_json(self) -> str:
        """Return the survey as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def of_json(cls, text: str) -> Self:
        """Return the survey from the JSON of `to_json`."""
        kept = json.loads(text)
        loads = {
            name: [Load(**{**load, "delays": tuple(load["delays"])}) for load in of_fleet]
            for name, of_fleet in kept.pop("loads").items()
        }
        return cls(loads=loads, real=[RealLoad(**load) for load in kept.pop("real")], **kept)
