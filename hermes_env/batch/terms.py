"""What a driver is told: how a batch is run, and by what it is written down."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from hermes_env.batch.result import Result, Status
from hermes_env.batch.summary import BatchProgress


class Writes(Protocol):
    """What a driver writes down, see `Journal`."""

    done: dict[str, Status]
    """The statuses of tasks that have a result, and are passed over."""

    def begin(self, names: Collection[str]) -> None:
        """Note that tasks begin."""

    def withdraw(self, names: Collection[str]) -> None:
        """Note that tasks have not begun after all."""

    def add(self, results: Collection[Result]) -> None:
        """Add results."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a batch is run."""

    workers: int
    """How many tasks run at once at most."""
    budget: float = math.inf
    """Seconds after which no task begins, and those that run are ended."""
    reruns_lost: bool = False
    """Whether a task is run again that may have run, and whose end is not known."""
    total: int | None = None
    """How many tasks there are that have no result; None where that is not known."""
    on_result: Callable[[Result], object] | None = None
    """Is told each result, once that is written down."""
    progress: Callable[[BatchProgress], object] | None = None
    """Is told how far the batch is."""
