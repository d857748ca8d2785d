"""Timing things in turns, so that a slow moment of the machine hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Action = Callable[[], object]

MOST_ROUNDS = 300


def medians(*actions: Action, seconds: float = 1.5, least_rounds: int = 5, warm_ups: int = 2) -> list[float]:
    """Return the median time of each action, in seconds.

    Args:
        actions: Called in turns.
        seconds: How long to go on.
        least_rounds: How many turns to take at least, however long that takes.
        warm_ups: How many turns to take before, untimed.
    """
    for action in actions * warm_ups:
        action()
    times: list[list[float]] = [[] for _ in actions]
    end = time.perf_counter() + seconds
    while len(times[0]) < least_rounds or (time.perf_counter() < end and len(times[0]) < MOST_ROUNDS):
        for action, taken in zip(actions, times, strict=True):
            taken.append(timed(action))
    return [median(taken) for taken in times]


def timed(action: Action) -> float:
    """Return how long one call takes, in seconds."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began
