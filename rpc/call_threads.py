"""Threads for the calls of a script, for transports with a single stream of requests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue

MAX_THREADS = 32
"""Calls of one script that run side by side."""
MAX_JOBS = 64
MAX_BYTES = 64 * 1024 * 1024
"""Limits for calls that run or wait, and for their bytes together. At the limit `put` blocks: back-pressure."""

_Job = Callable[[], object]


class CallThreads:
    """Runs jobs on up to `MAX_THREADS` threads, started on demand."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: SimpleQueue[tuple[int, _Job] | None] = SimpleQueue()
        self._threads: set[threading.Thread] = set()
        self._jobs = self._bytes = 0
        self._closed = False

    def put(self, size: int, job: _Job) -> None:
        """Queue a job, once there is room. No effect after `close`.

        Args:
            size: Bytes held by the job.
            job: Function to run. Must not raise.
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
        except RuntimeError:  # the system has no more threads; those running go on
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
        """Drop all queued jobs and wake threads waiting in `put`."""
        with self._changed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for running jobs."""
        join_all(list(self._threads), timeout)


def join_all(threads: Iterable[threading.Thread], timeout: float) -> None:
    """Wait at most `timeout` seconds in all for threads to end."""
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
