"""Commands on an SSH host 0, 30 and 80 ms away: a server on this machine behind a slow link."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.chart import Chart, Line, Point
from benchmarks.measure import Measured, clocked, in_turn
from benchmarks.peers.peer import HERMES_AGENT, opened_peers, timers_of
from benchmarks.slow_link import slow_link
from benchmarks.ssh import HOST, SSHHost, start_server
from environments import create_environment

ROUND_TRIPS = (0, 30, 80)
"""Milliseconds: none, to the same continent, and to another continent."""


def charts() -> Iterator[Chart]:
    """Measure a command at each distance."""
    found = {round_trip: _at(round_trip) for round_trip in ROUND_TRIPS}
    yield Chart(
        name="distance",
        title="Time for a command over SSH, by distance",
        across="round trip to the host",
        up="milliseconds",
        lines=_lines(found),
        ticks=[(float(round_trip), f"{round_trip} ms") for round_trip in ROUND_TRIPS],
        scale="linear",
        says="Milliseconds of a command over SSH, 0 to 80 ms away.",
    )


def _at(round_trip: int) -> Measured:
    """Return the times of commands over a distance."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="hermes-benchmark-")))
        port = opened.enter_context(slow_link(start_server(folder, opened), round_trip / 2000))
        config = str(folder / "client")
        env = opened.enter_context(create_environment("ssh", host=HOST, port=port, config=config))
        env.execute("true")
        host = SSHHost(folder, port, opened)
        peers, missing = opened.enter_context(opened_peers({HERMES_AGENT: host.peer_place}))
        ways = {name.replace("`", ""): run for name, run in host.ways.items()}
        return in_turn(
            {
                "this package": clocked(lambda: env.execute("true")),
                **{name: clocked(lambda run=run: run(["true"])) for name, run in ways.items()},  # type: ignore[misc]
                **timers_of(peers, "command"),
            },
            least_rounds=6,
            missing=missing,
        )


def _lines(found: Mapping[int, Measured]) -> list[Line]:
    names = list(dict.fromkeys(name for measured in found.values() for name in measured.times))
    return [
        Line(name, [Point.of_times(at, each.times[name]) for at, each in found.items() if name in each.times])
        for name in names
    ]
