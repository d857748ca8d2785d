"""When a batch is to give up, as environments do not start."""

from __future__ import annotations

import re

FIRST, LATER = 3, 20
"""So many tasks in a row have to fail in the same way: before any has begun, and once some have."""
_CHANGING = re.compile(r"[0-9a-f]{8,}|\d+")
"""What differs from one start to the next, such as the id of a container."""


class FailedStarts:
    """Counts the tasks in a row whose environments could not be started.

    Args:
        workers: How many tasks may fail at once of one mishap.
    """

    def __init__(self, workers: int) -> None:
        self._most = max(LATER, 3 * workers)
        self._has_begun = False
        self._kind = ""
        self._tasks: set[str] = set()

    def begun(self) -> None:
        """Note that a task had its environment."""
        self._has_begun = True
        self._tasks.clear()

    def failed(self, task: str, error: str) -> bool:
        """Note that a task had none, and return whether it looks as if none would.

        Args:
            task: Its id.
            error: What was said.
        """
        kind = _CHANGING.sub("#", error)
        if kind != self._kind:
            self._kind = kind
            self._tasks.clear()
        self._tasks.add(task)
        return len(self._tasks) >= (self._most if self._has_begun else FIRST)
