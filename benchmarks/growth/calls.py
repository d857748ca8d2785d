"""Tool calls of one script, 1 to 64 at once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence

from benchmarks.chart import Chart, Line, Point
from benchmarks.measure import Times
from benchmarks.places import docker_image
from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment, TerminalError, create_environment

COUNTS = (1, 2, 4, 8, 16, 32, 64)
TOOL = 0.01
"""Seconds that the tool takes."""
EACH = 8
"""Calls of each thread in one round."""
ROUNDS = 3
_SCRIPT = """
import json, time
from concurrent.futures import ThreadPoolExecutor
from hermes_tools import work
taken = []
for count in COUNTS:
    taken.append([])
    with ThreadPoolExecutor(count) as threads:
        list(threads.map(lambda _: work(), range(count)))
        for _ in range(ROUNDS):
            began = time.perf_counter()
            list(threads.map(lambda _: work(), range(count * EACH)))
            taken[-1].append((time.perf_counter() - began) / (count * EACH))
print(json.dumps(taken))
"""


def charts() -> Iterator[Chart]:
    """Measure them on this machine and in a container."""
    with contextlib.ExitStack() as opened:
        lines = [
            Line("at best", [Point(count, count / TOOL, count / TOOL, count / TOOL) for count in COUNTS]),
            Line("socket, local", _measured(opened.enter_context(create_environment("local")), "socket")),
        ]
        with contextlib.suppress(TerminalError):
            env = opened.enter_context(create_environment("docker", image=docker_image()))
            lines.append(Line("relay, Docker", _measured(env, "relay")))
            lines.append(Line("file queue, Docker", _measured(env, "file")))
    yield Chart(
        name="calls",
        title="Tool calls a second, by calls at once",
        across="threads of one script that call a tool",
        up="calls a second",
        lines=lines,
        ticks=[(count, str(count)) for count in COUNTS],
        says="How many tool calls a second one script makes that calls a tool in 1 to 64 threads.",
        note=f"The tool takes {TOOL * 1000:.0f} ms, so that one thread can make {1 / TOOL:.0f} calls a second at best.",
    )


def _measured(env: BaseEnvironment, transport: TransportName) -> Sequence[Point]:
    def work() -> None:
        """Take some time."""
        time.sleep(TOOL)

    code = _SCRIPT
    for name, value in (("COUNTS", COUNTS), ("ROUNDS", ROUNDS), ("EACH", EACH)):
        code = code.replace(name, repr(value))
    result = execute_code(code, env=env, tools={"work": work}, transport=transport, max_tool_calls=10_000, timeout=120)
    if result.status != "success":
        raise RuntimeError(result.output)
    taken = json.loads(result.output)
    return [Point.rate(count, Times.of(each)) for count, each in zip(COUNTS, taken, strict=True)]
