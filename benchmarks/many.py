"""Very many environments at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.fresh_process import in_fresh_process
from benchmarks.measure import Times, timed
from benchmarks.memory import resident_bytes
from benchmarks.raw_process import NOTHING, PipedProcess, RawProcess
from benchmarks.table import Row
from environments import BaseEnvironment, create_environment

COUNT = 200
ROUNDS = 5
SECONDS = 1.0
"""How long all run commands in one round."""
GOAL = 10_000
"""Commands a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """What very many environments take, in a process of their own."""

    first: float
    """Seconds of the first command of each."""
    memory: float
    """Bytes of each, in this process."""
    threads: float
    """Threads of each, in this process."""
    ours: Sequence[float]
    """Seconds for each command, of all together, in some rounds."""
    raw: Sequence[float]
    """The same of as many bare shells."""


def rows() -> Iterator[Row]:
    """Measure what each of them takes, in a fresh process: in this one memory may lie free from before."""
    found = in_fresh_process(_measured)
    ours, raw = Times.of(found.ours), Times.of(found.raw)
    rates = f"{1 / ours.median:,.0f} commands/s (goal: {GOAL:,}), raw {1 / raw.median:,.0f}"
    each = f"each takes {found.memory / 1e6:.2f} MB (goal: 0.1 MB) and {found.threads:.2g} threads (goal: none) here"
    yield Row(what=f"first command of {COUNT}, local", ours=Times.of([found.first]))
    yield Row(
        what=f"commands of {COUNT} at once, each, local",
        raw=raw,
        raw_is="a line to each of as many bashes, by as many threads of one process",
        ours=ours,
        limit=1 / GOAL,
        note=f"{rates}; {each}",
    )


def seconds_each(actions: Sequence[Callable[[], object]], seconds: float = SECONDS) -> float:
    """Return how many seconds there are for each call, where each action is called by a thread of its own."""
    ready = threading.Barrier(len(actions) + 1)
    end = [0.0]

    def work(action: Callable[[], object]) -> int:
        ready.wait()
        done = 0
        while time.perf_counter() < end[0]:
            action()
            done += 1
        return done

    with ThreadPoolExecutor(len(actions)) as threads:
        counts = [threads.submit(work, action) for action in actions]
        began = time.perf_counter()
        end[0] = began + seconds
        ready.wait()
        done = sum(count.result() for count in counts)
    return (time.perf_counter() - began) / done


def command_of(env: BaseEnvironment) -> Callable[[], object]:
    """Return the action that all of them do at once."""
    return lambda: env.execute("true")


def raw_of(bash: RawProcess) -> Callable[[], object]:
    """Return the same action of a bare shell."""
    return lambda: bash.round_trip(NOTHING)


def _measured() -> Found:
    with contextlib.ExitStack() as opened:
        opened.enter_context(create_environment("local")).execute("true")
        memory, threads = resident_bytes(), threading.active_count()
        envs = [opened.enter_context(create_environment("local")) for _ in range(COUNT)]
        first = timed(lambda: [env.execute("true") for env in envs])
        grown, started = resident_bytes() - memory, threading.active_count() - threads
        shells = [opened.enter_context(PipedProcess(["bash", "--norc", "--noprofile"])) for _ in range(COUNT)]
        ours, raw = [], []
        for _ in range(ROUNDS):
            raw.append(seconds_each([raw_of(bash) for bash in shells]))
            ours.append(seconds_each([command_of(env) for env in envs]))
        return Found(first / COUNT, grown / COUNT, started / COUNT, ours, raw)
