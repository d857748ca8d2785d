"""Results of 1 KB to 100 MB: of commands and of tool calls."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence

from benchmarks.chart import Chart, Line, Point
from benchmarks.docker import container_of
from benchmarks.measure import Timer, Times, clocked, in_turn
from benchmarks.places import docker_image
from code_execution import execute_code
from code_execution.limits import TransportName
from environments import BaseEnvironment, TerminalError, create_environment

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
NAMES = ("1 KB", "10 KB", "100 KB", "1 MB", "10 MB", "100 MB")
CALL_SIZES = (*SIZES[:-1], 30_000_000)
"""A message of a script has 32 MB at most."""
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
    """Measure both."""
    with contextlib.ExitStack() as opened:
        envs = {"local": opened.enter_context(create_environment("local"))}
        with contextlib.suppress(TerminalError):
            docker = opened.enter_context(create_environment("docker", image=docker_image()))
            docker.execute("true")
            envs["Docker"] = docker
        yield _of_commands(envs)
        yield _of_calls(envs)


def _of_commands(envs: dict[str, BaseEnvironment]) -> Chart:
    points: dict[str, list[Point]] = {}
    for size in SIZES:
        text = f"head -c {size} /dev/zero | tr '\\0' x"
        ways = {"a bash and a pipe, local": _raw(["bash", "-c", text])}
        ways |= {f"execute, {name}": _ours(env, text, size) for name, env in envs.items()}
        if "Docker" in envs:
            ways["`docker exec`"] = _raw(["docker", "exec", container_of(envs["Docker"]), "bash", "-c", text])
        measured = in_turn(ways, seconds=0.5, least_rounds=TIMES)
        for name, times in measured.times.items():
            points.setdefault(name, []).append(Point.took(size, times))
    return Chart(
        name="output",
        title="Time for a command, by the size of its output",
        across="output",
        up="milliseconds",
        lines=[Line(name.replace("`", ""), each) for name, each in points.items()],
        ticks=list(zip(SIZES, NAMES, strict=True)),
        says="How long a command takes whose output has 1 KB to 100 MB, on this machine and in a container.",
    )


def _raw(argv: Sequence[str]) -> Timer:
    return clocked(lambda: subprocess.run(argv, capture_output=True, check=True))


def _ours(env: BaseEnvironment, text: str, size: int) -> Timer:
    def run() -> None:
        assert len(env.execute(text, max_output_bytes=2 * SIZES[-1]).output) == size

    return clocked(run)


def _of_calls(envs: dict[str, BaseEnvironment]) -> Chart:
    lines = [Line("socket, local", _calls(envs["local"], "socket"))]
    if "Docker" in envs:
        lines.append(Line("relay, Docker", _calls(envs["Docker"], "relay")))
        lines.append(Line("file queue, Docker", _calls(envs["Docker"], "file")))
    return Chart(
        name="results",
        title="Time for a tool call, by the size of its result",
        across="result",
        up="milliseconds",
        lines=lines,
        ticks=[*zip(SIZES[:-2], NAMES[:-2], strict=True), (CALL_SIZES[-1], "30 MB")],
        says="How long a tool call takes whose result has 1 KB to 30 MB, by socket, by relay and by files.",
        note="A message has at most 32 MB, and a larger result is an error.",
    )


def _calls(env: BaseEnvironment, transport: TransportName) -> Sequence[Point]:
    def text(size: int) -> str:
        """Return so many characters."""
        return "x" * size

    code = _CALLS.replace("SIZES", repr(CALL_SIZES)).replace("TIMES", str(TIMES))
    result = execute_code(code, env=env, tools={"text": text}, transport=transport, max_tool_calls=100, timeout=120)
    if result.status != "success":
        raise RuntimeError(result.output)
    taken = json.loads(result.output)
    return [Point.took(size, Times.of(each)) for size, each in zip(CALL_SIZES, taken, strict=True)]
