"""Timing of several ways to do the same work, in turns, so that a slow moment of the machine affects all."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

Action = Callable[[], object]
Timer = Callable[[], Sequence[float]]
"""Does the work once, several times or, on some turns, not at all, and returns the seconds of each time."""

MOST_ROUNDS = 300


class UnavailableError(Exception):
    """A way cannot do the work. The message has the reason; the measurement continues without this way."""


@dataclass(frozen=True, slots=True)
class Times:
    """The median and the outer tenths of some measured seconds."""

    median: float
    low: float
    """The tenth percentile."""
    high: float
    """The ninetieth percentile."""
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Summarize at least one time."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        tenths = statistics.quantiles(seconds, n=10, method="inclusive")
        return cls(statistics.median(seconds), tenths[0], tenths[-1], len(seconds))


@dataclass(frozen=True, slots=True)
class Measured:
    """Times of several ways to do the same work, by name, and the reasons for missing ways."""

    times: Mapping[str, Times]
    missing: Mapping[str, str]

    def beside(self, name: str, times: Times) -> Measured:
        """Return a copy with known times added under a name."""
        return Measured({name: times, **self.times}, self.missing)


def in_turn(
    timers: Mapping[str, Timer],
    *,
    seconds: float = 1.5,
    least_rounds: int = 5,
    missing: Mapping[str, str] | None = None,
) -> Measured:
    """Measure several ways to do the same work.

    Args:
        timers: By name, called in turns. The first turn does not count. After `UnavailableError` a timer is not called
            again.
        seconds: The time for all turns.
        least_rounds: The smallest number of turns, even beyond `seconds`.
        missing: The reasons for ways without a timer, by name.
    """
    taken: dict[str, list[float]] = {name: [] for name in timers}
    failed = dict(missing or {})

    def turn(*, counts: bool) -> None:
        for name, timer in timers.items():
            if name not in failed:
                try:
                    found = timer()
                except UnavailableError as error:
                    failed[name] = str(error)
                else:
                    taken[name] += found if counts else ()

    turn(counts=False)  # imports, caches and first uses
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least_rounds or (time.perf_counter() < end and rounds < MOST_ROUNDS):
        turn(counts=True)
        rounds += 1
    return Measured({name: Times.of(each) for name, each in taken.items() if name not in failed}, failed)


def clocked(action: Action) -> Timer:
    """Make a timer of one call."""
    return lambda: (timed(action),)


def every_nth(timer: Timer, every: int) -> Timer:
    """Make a timer that works on every n-th turn only: a slow way would otherwise leave few turns to the others."""
    turns = itertools.count()
    return lambda: () if next(turns) % every else timer()


def timed(action: Action) -> float:
    """Return the seconds of one call."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
