"""The queue of tasks that have not begun: filled by a reader with back-pressure, emptied as limits allow."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from environments.options import check_count
from environments.registry import check_backend_name
from hermes_env.batch.result import Status
from hermes_env.batch.task import Task, TaskId

Places = tuple[str, ...]
"""The names of the limits for a task: a backend, and `backend:host`."""


class TaskQueue:
    """A first-in, first-out queue with a limit on running tasks for each place.

    Args:
        limits: The number of tasks at once, by the name of a backend or by `backend:host`.

    Raises:
        SettingsError: A name is no backend.
        TypeError: A limit is no whole number.
        ValueError: A limit is below 1.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        for place in limits:
            backend = place.partition(":")[0]
            if "." not in backend:  # else a class as package.module:Class
                check_backend_name(backend, f"limits[{place!r}]")
        self._limits = {place: check_count(f"limits[{place!r}]", limit) for place, limit in limits.items()}
        self._running: Counter[str] = Counter()
        self._queues: dict[Places, deque[tuple[int, Task]]] = {}
        self._number = 0

    @property
    def has_limits(self) -> bool:
        """True if a task may have to wait for others of the same place."""
        return bool(self._limits)

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, task: Task, places: Places) -> None:
        """Append a task."""
        limited = tuple(place for place in places if place in self._limits)
        self._number += 1
        self._queues.setdefault(limited, deque()).append((self._number, task))

    def next(self) -> tuple[Task, Places] | None:
        """Remove and return the oldest task within the limits, counted as running; None without such a task."""
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
        """Count a task returned by `next` as ended."""
        self._running.subtract(places)


class TaskReader:
    """Reads tasks without a result in a thread, because a generator may be slow. Reads ahead a limited number.

    Args:
        tasks: All tasks.
        done: The statuses of tasks with a result.
        ahead: The number of tasks to read ahead of `make_room`.
        found: Receives each task, in the reader's thread.
        ended: Called after the last task, with the exception of the iterable or None.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        done: Mapping[TaskId, Status],
        ahead: int,
        found: Callable[[Task], object],
        ended: Callable[[BaseException | None], object],
    ) -> None:
        self._tasks = tasks
        self._done = done
        self._room = threading.Semaphore(ahead)
        self._found = found
        self._ended = ended
        self._stopped = False
        self.passed_over: Counter[Status] = Counter()
        """The number of tasks with an earlier result, by status."""
        self._thread = threading.Thread(target=self._run, name="hermes-batch-reader", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def make_room(self) -> None:
        """Allow the reader to read another task ahead."""
        self._room.release()

    def stop(self) -> None:
        """Read no more tasks."""
        self._stopped = True
        self._room.release()

    def close(self, timeout: float) -> None:
        """Stop, and wait `timeout` seconds for the thread: a generator may block for ever."""
        self.stop()
        self._thread.join(timeout)

    def _run(self) -> None:
        try:
            for task in self._tasks:
                if self._stopped:
                    break
                if status := self._done.get(task.id):
                    self.passed_over[status] += 1
                    continue
                self._room.acquire()
                self._found(task)
        except BaseException as error:  # a user's generator may raise anything
            self._ended(error)
        else:
            self._ended(None)
