"""Commands a second of 1 to 24 containers of this machine's Docker."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from benchmarks.chart import Chart, Line, Point
from benchmarks.docker import ExecProcess, container_of
from benchmarks.many import command_of, raw_of, seconds_each
from benchmarks.measure import Times
from benchmarks.places import docker_image
from environments import BaseEnvironment, Pool

if TYPE_CHECKING:
    from docker import APIClient

COUNTS = (1, 2, 4, 8, 16, 24)
ROUNDS = 3
SECONDS = 0.4


def charts() -> Iterator[Chart]:
    """Measure them: lent by a pool, with a thread for each."""
    import docker

    with contextlib.ExitStack() as opened:
        api = docker.APIClient()
        opened.callback(api.close)
        most = COUNTS[-1]
        pool = opened.enter_context(Pool({"backend": "docker", "image": docker_image()}, min=most, max=most))
        lent = [opened.enter_context(pool.environment()) for _ in range(most)]
        lines = _measured([_actions(api, env, opened) for env in lent])
    yield Chart(
        name="containers",
        title="Commands a second, by containers at once",
        across="containers on this machine, a thread for each",
        up="commands a second",
        lines=lines,
        ticks=[(count, str(count)) for count in COUNTS],
        says=f"How many commands a second 1 to {COUNTS[-1]} containers run together, each with a thread of its own.",
    )


def _actions(api: APIClient, env: BaseEnvironment, opened: contextlib.ExitStack) -> dict[str, Callable[[], object]]:
    """Return what runs one command in an environment's container, by name."""
    container = container_of(env)
    bash = ExecProcess(api, container, "bash")
    opened.callback(bash.close)
    words = ["docker", "exec", container, "true"]
    return {
        "bare shells": raw_of(bash),
        "this package": command_of(env),
        "docker exec": lambda: subprocess.run(words, capture_output=True, check=True),
    }


def _measured(actions: list[dict[str, Callable[[], object]]]) -> list[Line]:
    taken: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for count in COUNTS:
            for name in actions[0]:
                each = [of_one[name] for of_one in actions[:count]]
                taken.setdefault((name, count), []).append(seconds_each(each, SECONDS))
    return [Line(name, [Point.rate(count, Times.of(taken[name, count])) for count in COUNTS]) for name in actions[0]]
