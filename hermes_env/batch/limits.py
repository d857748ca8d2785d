"""How many tasks may run at once in one place, and which of those that wait is next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from environments.options import check_count
from environments.registry import check_backend_name
from hermes_env.batch.task import Task

Places = tuple[str, ...]


class Waiting:
    """The tasks that have been read and have not begun, in the order in which they came.

    Args:
        limits: How many may run at once, by the name of a backend or by `backend:host`.

    Raises:
        SettingsError: One is for no backend.
        TypeError: One is no whole number.
        ValueError: One is below 1.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = _checked(limits)
        self._running: Counter[str] = Counter()
        self._queues: dict[Places, deque[tuple[int, Task]]] = {}
        self._number = 0
        self._first = 0

    @property
    def has_limits(self) -> bool:
        """Whether some may have to wait for others of their place."""
        return bool(self._limits)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, task: Task, places: Places, *, first: bool = False) -> None:
        """Have a task wait.

        Args:
            task: The task.
            places: Where it is going to run.
            first: Whether it is the next of its places, as it has waited already.
        """
        queue = self._queues.setdefault(self._limited(places), deque())
        if first:
            self._first -= 1
            queue.appendleft((self._first, task))
        else:
            self._number += 1
            queue.append((self._number, task))

    def next(self) -> tuple[Task, Places] | None:
        """Take out the task that has waited longest among those that may run, and count it; None if there is none."""
        free = [
            (queue[0][0], places)
            for places, queue in self._queues.items()
            if all(self._running[place] < self._limits[place] for place in places)
        ]
        if not free:
            return None
        _, places = min(free)
        _, task = self._queues[places].popleft()
        if not self._queues[places]:
            del self._queues[places]
        self._running.update(places)
        return task, places

    def ended(self, places: Places) -> None:
        """Note that a task has ended that `next` has returned."""
        self._running.subtract(places)

    def _limited(self, places: Places) -> Places:
        return tuple(place for place in places if place in self._limits)


def _checked(limits: Mapping[str, int]) -> dict[str, int]:
    for place in limits:
        backend = place.partition(":")[0]
        if "." not in backend:  # else it is a class as package.module:Class
            check_backend_name(backend, f"limits[{place!r}]")
    return {place: check_count(f"limits[{place!r}]", limit) for place, limit in limits.items()}
