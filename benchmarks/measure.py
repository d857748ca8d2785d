"""Timing things in turns, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

Action = Callable[[], object]
Timer = Callable[[], Sequence[float]]
"""Does its work once or several times, or now and then not at all, and returns how many seconds each time took."""

MOST_ROUNDS = 300


class CannotDoError(Exception):
    """One of those that are measured cannot do the work. The message says why; the others go on without it."""


@dataclass(frozen=True, slots=True)
class Times:
    """What something took, in seconds."""

    median: float
    low: float
    """Of ten times, one was quicker."""
    high: float
    """Of ten times, one took longer."""
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        """Sum up what was measured, which is at least once."""
        if len(seconds) == 1:
            return cls(seconds[0], seconds[0], seconds[0], 1)
        tenths = statistics.quantiles(seconds, n=10, method="inclusive")
        return cls(statistics.median(seconds), tenths[0], tenths[-1], len(seconds))


@dataclass(frozen=True, slots=True)
class Measured:
    """What some took that did the same work in turns, by name, and why others took nothing."""

    times: Mapping[str, Times]
    missing: Mapping[str, str]

    def beside(self, name: str, times: Times) -> Measured:
        """Return the same with one that is known without measuring."""
        return Measured({name: times, **self.times}, self.missing)


def in_turn(
    timers: Mapping[str, Timer],
    *,
    seconds: float = 1.5,
    least_rounds: int = 5,
    missing: Mapping[str, str] | None = None,
) -> Measured:
    """Measure several that do the same work.

    Args:
        timers: By name. They are called in turns, the first of which does not count. One that raises
            `CannotDoError` is left out from then on.
        seconds: How long to go on.
        least_rounds: How many turns to take at least, however long that takes.
        missing: What cannot even begin, and why, by name.
    """
    taken: dict[str, list[float]] = {name: [] for name in timers}
    failed = dict(missing or {})

    def turn(*, counts: bool) -> None:
        for name, timer in timers.items():
            if name not in failed:
                try:
                    found = timer()
                except CannotDoError as error:
                    failed[name] = str(error)
                else:
                    taken[name] += found if counts else ()

    turn(counts=False)  # what is used for the first time
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < least_rounds or (time.perf_counter() < end and rounds < MOST_ROUNDS):
        turn(counts=True)
        rounds += 1
    return Measured({name: Times.of(each) for name, each in taken.items() if name not in failed}, failed)


def clocked(action: Action) -> Timer:
    """Make a timer of one call."""
    return lambda: (timed(action),)


def seldom(timer: Timer, every: int) -> Timer:
    """Make a timer that works only every so many turns: what is slow would leave few turns to what is quick."""
    turns = itertools.count()
    return lambda: () if next(turns) % every else timer()


def timed(action: Action) -> float:
    """Return how long one call takes, in seconds."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
