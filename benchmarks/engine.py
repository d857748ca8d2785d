"""What is measured on every engine that is not this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import medians
from benchmarks.raw_process import NOTHING, RawProcess
from benchmarks.table import Row
from benchmarks.tool_calls import tool_call_seconds
from code_execution import execute_code
from environments import BaseEnvironment

FILE_SIZE = 100_000_000
CALLS = 100
EXECS_PER_CALL = 4
"""A tool call by files takes, without a collecting command: list them, read one, write the answer, remove it."""
_MESSAGE = b'{"tool":"noop"}\n'
_SCRIPT = "print(1)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """An engine, ready for use, with the ways to reach it without this package."""

    name: str
    env: BaseEnvironment
    bash: RawProcess
    """A bash in the target."""
    cat: RawProcess
    """A `cat` in the target."""
    each: Callable[[Sequence[str]], Sequence[str]]
    """Makes the command line by which one command is run there today."""
    each_name: str
    put: Callable[[Path], object]
    """Copies a file into the target by the engine's own client library or program."""
    put_name: str
    command_goal: float


def rows_of(engine: Engine) -> Iterator[Row]:
    """Measure everything on one engine."""
    yield from _commands(engine)
    yield from _tool_calls(engine)
    yield _script(engine)
    yield _put_file(engine)


def _commands(engine: Engine) -> Iterator[Row]:
    env = engine.env
    raw, session, oneshot, today = medians(
        lambda: engine.bash.round_trip(NOTHING),
        lambda: env.execute("true"),
        lambda: env.execute_oneshot("true"),
        lambda: subprocess.run(engine.each(["true"]), check=True),
        seconds=3,
    )
    note = f"raw: a line to one bash there; today: {engine.each_name} each"
    yield Row(
        what=f'execute("true"), {engine.name}', raw=raw, ours=session, goal=engine.command_goal, today=today, note=note
    )
    yield Row(what=f'execute_oneshot("true"), {engine.name}', raw=raw, ours=oneshot, today=today, note="the same")


def _tool_calls(engine: Engine) -> Iterator[Row]:
    raw, each = medians(
        lambda: engine.cat.round_trip(_MESSAGE), lambda: subprocess.run(engine.each(["true"]), check=True)
    )
    today = EXECS_PER_CALL * each
    note = f"raw: a line through a cat there; today: {EXECS_PER_CALL} times {engine.each_name}"
    over_relay = tool_call_seconds(engine.env, "relay", CALLS)
    yield Row(what=f"tool call, {engine.name}, relay", raw=raw, ours=over_relay, goal=2.5, today=today, note=note)
    over_files = tool_call_seconds(engine.env, "file", CALLS)
    note = "the same; goal: 6 ms on Docker"
    yield Row(what=f"tool call, {engine.name}, file queue", raw=raw, ours=over_files, today=today, note=note)


def _script(engine: Engine) -> Row:
    line = f"python3 -c '{_SCRIPT}'\n".encode()
    raw, ours, today = medians(
        lambda: engine.bash.round_trip(line),
        lambda: execute_code(_SCRIPT, env=engine.env),
        lambda: subprocess.run(engine.each(["python3", "-c", _SCRIPT]), capture_output=True, check=True),
        seconds=3,
    )
    note = f"raw: starting Python from one bash there; today: {engine.each_name} python3 -c"
    return Row(what=f'execute_code("{_SCRIPT}"), {engine.name}', raw=raw, ours=ours, goal=3, today=today, note=note)


def _put_file(engine: Engine) -> Row:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "hermes-benchmark")
        file.write_bytes(os.urandom(1_000_000) * (FILE_SIZE // 1_000_000))
        raw, ours = medians(
            lambda: engine.put(file),
            lambda: engine.env.put_file(file, "/var/tmp/hermes-benchmark"),
            seconds=0,
            least_rounds=3,
            warm_ups=1,
        )
    engine.env.execute("rm -f /var/tmp/hermes-benchmark")
    note = f"raw: {engine.put_name}"
    return Row(what=f"put_file of 100 MB, {engine.name}", raw=raw, ours=ours, goal=1, note=note)
