"""The soak test in phases, with the figures after each phase."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from benchmarks.soak import processes, scripts
from benchmarks.soak.commands import ORDINARY
from benchmarks.soak.faults import FAULTS
from benchmarks.soak.figures import SLACK, Figures, leftovers, open_files, scratch_entries, settled_figures
from benchmarks.soak.target import open_environment
from benchmarks.soak.work import SoakError, Work
from environments import BaseEnvironment
from environments.loop import run
from environments.owner import MARKER_VARIABLE

_T = TypeVar("_T")

FAULT_SHARE = 0.03
"""The share of commands with a fault."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of work."""

    commands: int
    calls: int
    scripts: int
    phases: int = 10


@dataclass(frozen=True, slots=True)
class Phase:
    """The work and the figures at the end of a phase."""

    seconds: float
    commands: int
    calls: int
    scripts: int
    figures: Figures


class Soak:
    """Very much work on an environment.

    Args:
        backend: The backend, see `open_environment`.
        amount: The amount of work.
        seed: Selects work and faults and their order. The moment of a fault depends on time too.
    """

    def __init__(self, backend: str, amount: Amount, seed: int) -> None:
        self._backend = backend
        self._amount = amount
        self._chance = Random(seed)
        self._scripts = 0
        self.work: Work | None = None
        """The work so far; set once the soak has begun."""

    def phases(self) -> Iterator[Phase]:
        """Do the work, and yield each phase at its end. The first is the warm-up.

        Raises:
            SoakError: A result was wrong, a figure has grown, or leftovers were found.
        """
        began = time.monotonic()
        run(lambda _: asyncio.sleep(0))  # the loop thread stays, with its descriptors
        with open_environment(self._backend) as env:
            threads, descriptors = set(threading.enumerate()), len(open_files())
            work = self.work = _begun(env, self._chance)
            first: Figures | None = None
            problems: list[str] = []
            for number in range(1, self._amount.phases + 1):
                self._do(work, number / self._amount.phases)
                found = settled_figures(env, work.name, _settled(first))
                yield Phase(time.monotonic() - began, work.commands, work.calls, self._scripts, found)
                first = first or found
                problems += [f"phase {number}: {grown}" for grown in found.above(first, SLACK)]
            if problems:
                problems += [*processes.local_files(), *scratch_entries(env)]
            env.cleanup()
            problems += [f"left behind: {left}" for left in leftovers(work.name, threads, descriptors)]
            if problems:
                raise SoakError("; ".join(problems))

    def _do(self, work: Work, part: float) -> None:
        """Do the rest of a part of the work."""
        commands = math.ceil(self._amount.commands * part) - work.commands
        todo = ["command"] * max(0, commands)
        todo += ["script"] * (math.ceil(self._amount.scripts * part) - self._scripts)
        self._chance.shuffle(todo)
        for kind in todo:
            if kind == "script":
                self._do_script(work)
            elif work.commands < self._amount.commands * part:  # an action may be several commands
                work.perform(_one_of(FAULTS if self._chance.random() < FAULT_SHARE else ORDINARY, self._chance))

    def _do_script(self, work: Work) -> None:
        scripts_left = self._amount.scripts - self._scripts
        due = max(3, math.ceil((self._amount.calls - work.calls) / (scripts_left * scripts.ORDINARY_SHARE)))
        self._scripts += 1
        ordinary = self._chance.random() < scripts.ORDINARY_SHARE
        script = scripts.calls if ordinary else _one_of(scripts.FAULTY, self._chance)
        with work.counted(f"script {script.__name__}"):
            script(work, due)


def _begun(env: BaseEnvironment, chance: Random) -> Work:
    directory = env.execute('cd "$(mktemp -d)" && pwd').output.strip()
    name = env.execute(f"echo ${MARKER_VARIABLE}").output.split("/")[0]
    return Work(env, chance, directory, name)


def _settled(first: Figures | None) -> Callable[[Figures], bool]:
    """Return a condition: processes are gone, and no figure has grown."""

    def settled(found: Figures) -> bool:
        return found.processes == 0 and not (first and found.above(first, SLACK))

    return settled


def _one_of(kinds: Mapping[_T, int], chance: Random) -> _T:
    return chance.choices(list(kinds), list(kinds.values()))[0]
