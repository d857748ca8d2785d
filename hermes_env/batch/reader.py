"""Reads the tasks of a batch ahead of those that run, in a thread, as they may be slow to come."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hermes_env.batch.result import Status
from hermes_env.batch.task import Task


class Reader:
    """Hands on tasks that have no result yet, some ahead of those that were taken.

    Args:
        tasks: All tasks.
        done: The statuses of those that have a result.
        ahead: How many are read before one of them is taken.
        found: Is handed each, in the reader's thread.
        ended: Is called behind the last of them, with what was raised if something was.
    """

    def __init__(
        self,
        tasks: Iterable[Task],
        done: Mapping[str, Status],
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
        """How many had a result, by its status."""
        self._thread = threading.Thread(target=self._run, name="hermes-batch-reader", daemon=True)

    def begin(self) -> None:
        """Begin to read."""
        self._thread.start()

    def taken(self) -> None:
        """Note that one was taken, so that there is room for another."""
        self._room.release()

    def stop(self) -> None:
        """Read no more. A task that does not come does not keep anybody waiting."""
        self._stopped = True
        self._room.release()

    def close(self, timeout: float) -> None:
        """Stop, and wait a while for the thread, which may have to wait for a task that does not come."""
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
        except BaseException as error:  # of somebody's generator; whoever waits for the tasks is told
            self._ended(error)
        else:
            self._ended(None)
