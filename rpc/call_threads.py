"""A few threads that run the calls of one script, for transports whose requests all come in one place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue

MAX_THREADS = 32
"""How many calls of one script run side by side."""
MAX_JOBS = 64
MAX_BYTES = 64 * 1024 * 1024
"""How many calls run or wait for a thread, and how large they are together, before no more are taken."""

_Job = Callable[[], object]


class CallThreads:
    """Runs jobs in threads that are made when they are needed, up to a number."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: SimpleQueue[tuple[int, _Job] | None] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._jobs = self._bytes = 0
        self._closed = False

    def put(self, size: int, job: _Job) -> None:
        """Have a job run, once there is room for it. When they are closed, nothing is done.

        Args:
            size: How many bytes it holds.
            job: What to run. It raises nothing.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._has_room(size))
            if self._closed:
                return
            self._jobs += 1
            self._bytes += size
            if len(self._threads) < min(self._jobs, MAX_THREADS):
                self._add_thread()
            self._queue.put((size, job))

    def _has_room(self, size: int) -> bool:
        return self._jobs < MAX_JOBS and not (self._bytes and self._bytes + size > MAX_BYTES)

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="hermes-rpc-call", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads: those that there are go on
            return
        self._threads.add(thread)

    def _work(self) -> None:
        while (given := self._queue.get()) is not None and not self._closed:
            size, job = given
            job()
            with self._changed:
                self._jobs -= 1
                self._bytes -= size
                self._changed.notify_all()

    def close(self) -> None:
        """Run nothing more, and let those go on that wait to `put` something."""
        with self._changed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait that many seconds for what still runs."""
        join_all(list(self._threads), timeout)


def join_all(threads: Iterable[threading.Thread], timeout: float) -> None:
    """Wait so many seconds for threads to end."""
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
