"""The file tools beside a one-shot, and beside the smallest shell command for the same work."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

from benchmarks.measure import Action, UnavailableError, clocked, in_turn
from benchmarks.raw_process import RawProcess
from benchmarks.table import OURS, RAW, Row
from environments import BaseEnvironment
from hermes_tools import model_tools

GOAL = 3
"""The goal of a call, as a multiple of a one-shot."""
LOOPS = 2
"""Busy loops beside a measurement at load."""
_FOLDER = "/tmp/hermes-benchmark-files"
"""A folder in the target, removed at the end."""
_TREE = f"{_FOLDER}/tree"
_MAKE_TREE = f"""
mkdir -p {_TREE} && for file in 1 2 3 4 5 6 7 8 9; do
    mkdir {_TREE}/$file && for name in a b c d e; do echo 'a line' >{_TREE}/$file/$name.py; done
done"""
_READ = "".join(f"line {number} of a file that is read\n" for number in range(200))
_WRITTEN = ("x" * 63 + "\n") * 32


class _Answer(TypedDict, total=False):
    error: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call, the work of a row."""

    what: str
    do: Action
    raw: str
    """Shell text for the same work, without checks."""
    raw_is: str


def rows_of(name: str, env: BaseEnvironment, bash: RawProcess) -> Iterator[Row]:
    """Measure the file tools, on an idle machine and at load.

    Args:
        name: The engine's name.
        env: An environment on the engine.
        bash: A shell in the environment's target.
    """
    env.execute_oneshot(f"mkdir -p {_FOLDER}")
    try:
        env.execute_oneshot(_MAKE_TREE)
        for file, text in (("read.txt", _READ), ("patched.txt", _READ), ("written.txt", _WRITTEN), ("raw.txt", _READ)):
            env.write_bytes(f"{_FOLDER}/{file}", text.encode())
        calls = _calls(model_tools(env))
        yield from _measured(name, env, bash, calls)
        with busy_loops():
            yield from _measured(f"{name}, at load", env, bash, calls)
    finally:
        env.execute_oneshot(f"rm -rf {_FOLDER}")


def _measured(name: str, env: BaseEnvironment, bash: RawProcess, calls: list[_Call]) -> Iterator[Row]:
    for call in calls:
        line = f"{{ {call.raw}; }} >/dev/null; echo\n".encode()

        measured = in_turn(
            {
                RAW: clocked(lambda: env.execute_oneshot("true")),
                OURS: clocked(call.do),
                f"{call.raw_is} in a bash there": clocked(partial(bash.round_trip, line)),
            },
            seconds=1,
            least_rounds=20,
        )
        raw_is = 'our own execute_oneshot("true") there'
        yield Row.of(f"{call.what}, {name}", measured, goal=GOAL, raw_is=raw_is)


def _calls(tools: Mapping[str, Callable[..., object]]) -> list[_Call]:
    def succeeding(tool: str, *args: object, **kwargs: object) -> None:
        answer = cast("_Answer", tools[tool](*args, **kwargs))
        if "error" in answer:
            raise UnavailableError(f"{tool} failed: {answer['error']}")

    new = itertools.count()
    words = itertools.cycle((("line 100 ", "LINE 100 "), ("LINE 100 ", "line 100 ")))
    read, patched, written, raw = (f"{_FOLDER}/{name}.txt" for name in ("read", "patched", "written", "raw"))
    writing = f"printf %s {shlex.quote(_WRITTEN)} >{_FOLDER}/part; mv {_FOLDER}/part"
    return [
        _Call('read_file("read.txt")', lambda: succeeding("read_file", read), f"cat {read}", "`cat`"),
        _Call(
            'write_file("new.txt", "...")',
            lambda: succeeding("write_file", f"{_FOLDER}/new{next(new)}.txt", _WRITTEN),
            f"{writing} {_FOLDER}/new.txt",
            "`printf` and `mv`",
        ),
        _Call(
            'write_file("written.txt", "...")',
            lambda: succeeding("write_file", written, _WRITTEN),
            f"stat -c %a {raw}; {writing} {raw}",
            "`stat`, `printf` and `mv`",
        ),
        _Call(
            'search_files("line 77 ")',
            lambda: succeeding("search_files", "line 77 ", path=read),
            f"grep -n 'line 77 ' {read}",
            "`grep -n`",
        ),
        _Call(
            'search_files("line") in 45 files',
            lambda: succeeding("search_files", "line", path=_TREE),
            f"if command -v rg; then rg --sort path -n line {_TREE}; else grep -r -n line {_TREE}; fi",
            "`rg` or `grep -r`",
        ),
        _Call(
            'patch("patched.txt", "old", "new")',
            lambda: succeeding("patch", patched, *next(words)),
            f"sed -i s/x/x/ {raw}",
            "`sed -i`",
        ),
    ]


@contextlib.contextmanager
def busy_loops() -> Iterator[None]:
    """Keep two processors of this machine busy."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
