"""The measurements of every cloud service: a stand-in on this machine, behind a link with a round-trip time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Times, clocked, in_turn
from benchmarks.table import OURS, RAW, Row
from benchmarks.tool_calls import tool_call_times
from environments import BaseEnvironment, EnvironmentStartError, create_environment

ROUND_TRIPS = (0.03, 0.08)
"""Seconds to a service on the same continent, and on another."""
CALLS = 20
RAW_IS = "a round trip to the stand-in"
TESTS = Path(__file__).resolve().parents[1] / "tests"

Action = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A service, and the way to it without this package."""

    name: str
    backend: str
    server: str
    """The module of the stand-in, below `tests`."""
    exec_true: Callable[[BaseEnvironment], AbstractContextManager[Action]]
    """Prepares a call of the service's own client: run `true` in the environment's sandbox."""
    exec_name: str
    disconnect: Action = lambda: None
    """Closes the client's process-wide connections, as the next link needs new ones."""


def rows_of(cloud: Cloud) -> Iterator[Row]:
    """Measure all operations on a service, over each link."""
    for round_trip in ROUND_TRIPS:
        with stand_in(cloud.server, round_trip):
            with create_environment(cloud.backend) as env:
                yield from _rows(cloud, env, round_trip)
            cloud.disconnect()


def _rows(cloud: Cloud, env: BaseEnvironment, round_trip: float) -> Iterator[Row]:
    where = f"{cloud.name}, {round_trip * 1000:.0f} ms away"
    raw = Times(round_trip, round_trip, round_trip, 1)
    with cloud.exec_true(env) as exec_true:
        timers = {OURS: clocked(lambda: env.execute("true")), cloud.exec_name: clocked(exec_true)}
        measured = in_turn(timers, seconds=3, least_rounds=10)
    yield Row.of(f'execute("true"), {where}', measured.beside(RAW, raw), raw_is=RAW_IS)
    for transport, name in (("relay", "relay"), ("file", "file queue")):
        if transport == "relay" and not env.capabilities.duplex:
            continue
        ours = Times.of(tool_call_times(env, "relay" if transport == "relay" else "file", CALLS))
        yield Row(what=f"tool call, {where}, {name}", raw=raw, ours=ours, raw_is=RAW_IS)


@contextlib.contextmanager
def stand_in(module: str, round_trip: float) -> Iterator[None]:
    """Run a stand-in, and point this process's client of the service to the stand-in.

    Args:
        module: The server.
        round_trip: Seconds of a round trip.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", module, "--round-trip-ms", str(round_trip * 1000)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin and child.stdout
    before = dict(os.environ)
    try:
        line = child.stdout.readline()
        if not line:
            raise EnvironmentStartError(f"{module} did not start")
        os.environ.update(json.loads(line))
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        child.stdin.close()
        child.wait()
        child.stdout.close()
