"""Commands a second of 1 to 200 environments on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.chart import Chart, Line, Point
from benchmarks.fresh_process import in_fresh_process
from benchmarks.many import command_of, raw_of, seconds_each
from benchmarks.measure import Times, UnavailableError
from benchmarks.peers.peer import HERMES_AGENT, Peer, opened_peers
from benchmarks.raw_process import PipedProcess
from environments import create_environment

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200)
PEER_COUNTS = (1, 2, 5, 10, 20, 50)
"""Fewer, as a peer takes a third of a second to make an environment."""
ROUNDS = 4
SECONDS = 0.4
NAMES = {"raw": "bare shells", "ours": "this package"}


def charts() -> Iterator[Chart]:
    """Measure this package, bare shells and a peer."""
    lines = [Line(NAMES[name], points) for name, points in in_fresh_process(_measured).items()]
    with opened_peers({HERMES_AGENT: {"place": "local"}}) as (peers, _):
        lines += [Line(name, _of_peer(peer)) for name, peer in peers.items()]
    yield Chart(
        name="environments",
        title="Commands a second, by environments at once",
        across="environments on this machine, a thread for each",
        up="commands a second",
        lines=lines,
        ticks=[(count, str(count)) for count in COUNTS],
        says=f"Commands a second of 1 to {COUNTS[-1]} environments, a thread for each.",
    )


def _measured() -> Mapping[str, Sequence[Point]]:
    with contextlib.ExitStack() as opened:
        envs = [opened.enter_context(create_environment("local")) for _ in range(COUNTS[-1])]
        shells = [opened.enter_context(PipedProcess(["bash", "--norc", "--noprofile"])) for _ in envs]
        actions = {"raw": [raw_of(bash) for bash in shells], "ours": [command_of(env) for env in envs]}
        for env in envs:
            env.execute("true")
        taken: dict[tuple[str, int], list[float]] = {}
        for _ in range(ROUNDS):
            for count in COUNTS:
                for name, all_of_them in actions.items():
                    taken.setdefault((name, count), []).append(seconds_each(all_of_them[:count], SECONDS))
    return {name: [Point.rate(count, Times.of(taken[name, count])) for count in COUNTS] for name in actions}


def _of_peer(peer: Peer) -> Sequence[Point]:
    points = []
    with contextlib.suppress(UnavailableError):
        for count in PEER_COUNTS:
            asked = {"environments": count, "seconds": 2 * SECONDS}
            each = [1 / peer.ask("at_once", asked)[1] for _ in range(2)]
            points.append(Point.rate(count, Times.of(each)))
    return points
