"""Very many environments at once: with a caller's thread each, and all awaited in a single thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fresh_process import in_fresh_process
from benchmarks.measure import Times, timed
from benchmarks.memory import resident_bytes
from benchmarks.raw_process import NOTHING, PipedProcess, RawProcess
from benchmarks.table import Row
from environments import BaseEnvironment, create_environment
from hermes_env.aio import AsyncEnvironment

COUNT = 200
COUNTS = (1, 20, COUNT)
"""Numbers of environments awaited at once."""
ROUNDS = 5
SECONDS = 1.0
"""Seconds of a round."""
GOAL = 10_000
"""Commands a second."""
AWAITED_GOAL = 1.25
"""The goal of awaited commands, as a multiple of commands in callers' threads."""
MADE_GOAL = 0.5
"""The goal of making all and running a command in each, in seconds."""


@dataclass(frozen=True, slots=True)
class ManyCosts:
    """The cost of very many environments, in a process of their own."""

    made: Sequence[float]
    """Seconds to make all and run a command in each, by round."""
    raw_made: Sequence[float]
    """The same for as many bare shells."""
    memory: float
    """Bytes of each, in this process."""
    threads: float
    """Threads of each, in this process."""
    descriptors: float
    """Descriptors of each, in this process."""
    ours: Sequence[float]
    """Seconds for each command, of all together, by round."""
    raw: Sequence[float]
    """The same for as many bare shells."""


@dataclass(frozen=True, slots=True)
class AwaitedCosts:
    """The cost of commands awaited in asyncio, by the number of environments, in a process of their own."""

    ours: Mapping[int, Sequence[float]]
    """Seconds for each command, of all together, by round."""
    by_threads: Mapping[int, Sequence[float]]
    """The same with a caller's thread for each environment."""
    threads: Mapping[int, int]
    """Threads of the process meanwhile."""


def rows() -> Iterator[Row]:
    """Measure each cost in a fresh process, as this process may have free memory."""
    found = in_fresh_process(_measured)
    ours, raw = Times.of(found.ours), Times.of(found.raw)
    rates = f"{1 / ours.median:,.0f} commands/s (goal: {GOAL:,}), raw {1 / raw.median:,.0f}"
    each = (
        f"each takes {found.memory / 1e6:.2f} MB (goal: 0.1 MB), {found.threads:.2g} threads (goal: none) and "
        f"{found.descriptors:.2g} descriptors here"
    )
    yield Row(
        what=f"make {COUNT} and run a command in each, local",
        raw=Times.of(found.raw_made),
        raw_is="as many bashes, and a line to each",
        ours=Times.of(found.made),
        limit=MADE_GOAL,
    )
    yield Row(
        what=f"commands of {COUNT} at once, each, local",
        raw=raw,
        raw_is="a line to each of as many bashes, by as many threads of one process",
        ours=ours,
        limit=1 / GOAL,
        note=f"{rates}; {each}",
    )
    awaited = in_fresh_process(_awaited)
    for count in COUNTS:
        took = Times.of(awaited.ours[count])
        yield Row(
            what=f"commands of {count} at once, each, awaited in asyncio, local",
            raw=Times.of(awaited.by_threads[count]),
            raw_is="the same environments, each with a thread of its caller's",
            ours=took,
            goal=AWAITED_GOAL,
            note=f"{1 / took.median:,.0f} commands/s, {awaited.threads[count]} threads",
        )


def seconds_each(actions: Sequence[Callable[[], object]], seconds: float = SECONDS) -> float:
    """Return the seconds of each call, with a thread for each action."""
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
    """Return the action for an environment."""
    return lambda: env.execute("true")


def raw_of(bash: RawProcess) -> Callable[[], object]:
    """Return the same action for a bare shell."""
    return lambda: bash.round_trip(NOTHING)


def _measured() -> ManyCosts:
    with contextlib.ExitStack() as opened:
        opened.enter_context(create_environment("local")).execute("true")
        memory, threads, descriptors = resident_bytes(), threading.active_count(), _descriptors()
        envs = [opened.enter_context(create_environment("local")) for _ in range(COUNT)]
        for env in envs:
            env.execute("true")
        grown, started = resident_bytes() - memory, threading.active_count() - threads
        held = _descriptors() - descriptors
        shells = [opened.enter_context(PipedProcess(["bash", "--norc", "--noprofile"])) for _ in range(COUNT)]
        ours, raw, made, raw_made = [], [], [], []
        for _ in range(ROUNDS):
            raw_made.append(_made_bare())
            made.append(_made())
            raw.append(seconds_each([raw_of(bash) for bash in shells]))
            ours.append(seconds_each([command_of(env) for env in envs]))
        return ManyCosts(made, raw_made, grown / COUNT, started / COUNT, held / COUNT, ours, raw)


def _descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def _made() -> float:
    with contextlib.ExitStack() as opened:
        return timed(lambda: [opened.enter_context(create_environment("local")).execute("true") for _ in range(COUNT)])


def _made_bare() -> float:
    bash = ["bash", "--norc", "--noprofile"]
    with contextlib.ExitStack() as opened:
        return timed(lambda: [opened.enter_context(PipedProcess(bash)).round_trip(NOTHING) for _ in range(COUNT)])


def _awaited() -> AwaitedCosts:
    ours: dict[int, list[float]] = {}
    by_threads: dict[int, list[float]] = {}
    threads: dict[int, int] = {}
    for count in COUNTS:
        with contextlib.ExitStack() as opened:
            envs = [opened.enter_context(create_environment("local")) for _ in range(count)]
            for env in envs:
                env.execute("true")
            for _ in range(ROUNDS):
                by_threads.setdefault(count, []).append(seconds_each([command_of(env) for env in envs]))
        took, threads[count] = asyncio.run(_rounds(count))
        ours[count] = took
    return AwaitedCosts(ours, by_threads, threads)


async def _rounds(count: int) -> tuple[list[float], int]:
    async with contextlib.AsyncExitStack() as opened:
        envs = [await opened.enter_async_context(AsyncEnvironment("local")) for _ in range(count)]
        for env in envs:
            await env.execute("true")
        took = [await _seconds_each(envs) for _ in range(ROUNDS)]
        return took, threading.active_count()


async def _seconds_each(envs: Sequence[AsyncEnvironment]) -> float:
    began = time.perf_counter()

    async def work(env: AsyncEnvironment) -> int:
        done = 0
        while time.perf_counter() < began + SECONDS:
            await env.execute("true")
            done += 1
        return done

    done = sum(await asyncio.gather(*map(work, envs)))
    return (time.perf_counter() - began) / done
