"""The background processes of an environment, for as long as they are known."""

from __future__ import annotations

import threading
import time
import weakref

from environments.base import BaseEnvironment
from environments.process import Process
from hermes_tools.background.process import BackgroundProcess

KEPT_SECONDS = 1800.0
"""How long a process is known after its end."""
MOST_ENDED = 64
"""How many processes of an environment are known after their end."""


class ProcessTable:
    """Those of one environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, BackgroundProcess] = {}

    def add(self, process: BackgroundProcess) -> None:
        """Know one more."""
        with self._lock:
            self._known[process.process_id] = process
            _everywhere[process.process_id] = process
            self._forget_old()

    def all(self) -> list[BackgroundProcess]:
        """Return all that are known, in the order they were started."""
        with self._lock:
            self._forget_old()
            return list(self._known.values())

    def find(self, process_id: str) -> BackgroundProcess | None:
        """Return the one of a name, if it is known."""
        with self._lock:
            self._forget_old()
            return self._known.get(process_id)

    def forget_old(self) -> None:
        """Forget those that ended long ago, or before many others."""
        with self._lock:
            self._forget_old()

    def _forget_old(self) -> None:
        ended = [(one.ended_at, one.process_id) for one in self._known.values() if one.ended_at is not None]
        ended.sort(reverse=True)
        since = time.monotonic() - KEPT_SECONDS
        for place, (ended_at, process_id) in enumerate(ended):
            if place >= MOST_ENDED or ended_at < since:
                self._forget(process_id)

    def _forget(self, process_id: str) -> None:
        del self._known[process_id]
        _everywhere.pop(process_id, None)

    def close(self) -> None:
        """Forget all of them: they have been ended with the environment."""
        with self._lock:
            known = list(self._known.values())
            for one in known:
                self._forget(one.process_id)
        for one in known:
            one.input.join()


_everywhere: weakref.WeakValueDictionary[str, BackgroundProcess] = weakref.WeakValueDictionary()


def table_of(env: BaseEnvironment) -> ProcessTable:
    """Return the processes of an environment."""
    return env.attachments.get(ProcessTable)


def background_process(process_id: str) -> Process:
    """Return the handle of a command that `terminal(background=True)` started, in whatever environment.

    Its `read` gives what it has printed since the last `read`, the last 200 KB of it. What `process` reads it does not
    take away.

    Raises:
        KeyError: No such process, or it ended 30 minutes ago, before 64 others, or with its environment.
    """
    return _everywhere[process_id].process
