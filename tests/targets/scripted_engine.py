"""A batch engine whose results come from a function of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hermes_env.batch import Result, Task
from hermes_env.batch.engine import Done

Act = Callable[[Task, int], Result | None]
"""Receives a task and the number of its starts; returns its result, or None to run until `end`."""


class ScriptedEngine:
    """Ends each task at once with the result of `act`, in another thread.

    Args:
        act: Decides the result of a task.
    """

    def __init__(self, act: Act) -> None:
        self._act = act
        self._held: dict[int, tuple[Task, Done]] = {}
        self._lock = threading.Lock()
        self.started: list[str] = []
        """Ids of the started tasks; a task started twice is there twice."""
        self.most = 0
        """Maximum of tasks that ran at the same time."""
        self.closed = False

    def start(self, worker: int, task: Task, done: Done) -> None:
        assert worker not in self._held
        self.started.append(task.id)
        result = self._act(task, self.started.count(task.id))
        with self._lock:
            if result is None:
                self._held[worker] = task, done
            self.most = max(self.most, len(self._held))
        if result:
            threading.Thread(target=done, args=(worker, result)).start()

    @property
    def held(self) -> list[str]:
        """Ids of the running tasks."""
        with self._lock:
            return [task.id for task, _ in self._held.values()]

    def end(self, name: str, status: str = "success") -> None:
        """End a running task."""
        with self._lock:
            worker = next(worker for worker, (task, _) in self._held.items() if task.id == name)
            task, done = self._held.pop(worker)
        done(worker, Result(task.id, status))  # type: ignore[arg-type]

    def interrupt(self) -> None:
        for name in self.held:
            self.end(name, "interrupted")

    def close(self) -> None:
        self.closed = True
