"""Tool calls with results of 1 KB to 30 MB."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence

from benchmarks.chart import Chart, Line, Point
from benchmarks.images import docker_image
from benchmarks.measure import Times
from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment, TerminalError, create_environment

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000)
"""A message of a script has 32 MB at most."""
TICKS = ((1_000, "1 KB"), (10_000, "10 KB"), (100_000, "100 KB"), (1_000_000, "1 MB"), (30_000_000, "30 MB"))
TIMES = 3
_CALLS = """
import json, time
from hermes_tools import text
taken = {}
for size in SIZES:
    taken[size] = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        assert len(text(size)) == size
        taken[size].append(time.perf_counter() - began)
print(json.dumps([taken[size][1:] for size in SIZES]))
"""


def charts() -> Iterator[Chart]:
    """Measure each transport."""
    with contextlib.ExitStack() as opened:
        lines = [Line("socket, local", _calls(opened.enter_context(create_environment("local")), "socket"))]
        with contextlib.suppress(TerminalError):
            env = opened.enter_context(create_environment("docker", image=docker_image()))
            env.execute("true")
            lines.append(Line("relay, Docker", _calls(env, "relay")))
            lines.append(Line("file queue, Docker", _calls(env, "file")))
    yield Chart(
        name="results",
        title="Time for a tool call, by the size of its result",
        across="result",
        up="milliseconds",
        lines=lines,
        ticks=TICKS,
        says="Milliseconds of a tool call with a result of 1 KB to 30 MB.",
        note="A result above 32 MB is an error.",
    )


def _calls(env: BaseEnvironment, transport: TransportName) -> Sequence[Point]:
    def text(size: int) -> str:
        """Return a text of `size` characters."""
        return "x" * size

    code = _CALLS.replace("SIZES", repr(SIZES)).replace("TIMES", str(TIMES))
    result = execute_code(code, env=env, tools={"text": text}, transport=transport, max_tool_calls=100, timeout=120)
    if result.status != "success":
        raise RuntimeError(result.output)
    taken = json.loads(result.output)
    return [Point.of_times(size, Times.of(each)) for size, each in zip(SIZES, taken, strict=True)]
