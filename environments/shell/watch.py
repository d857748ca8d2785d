"""Keeping a command to its limits while whoever reads what it prints is away, with a piece of that, for any time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

LONGEST_WAIT = 3600.0


class Watch:
    """A block in which the reader is away. From the first one on, a thread looks at the limits, until `end`.

    Args:
        look: Ends the command if a limit is reached. It returns when to look again, on the monotonic clock; None is
            never.
    """

    def __init__(self, look: Callable[[], float | None]) -> None:
        self.is_away = False
        """Whether nobody reads just now."""
        self._look = look
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self.is_away = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep_looking, name="hermes-watch-command", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads: the limits hold as soon as the reader is back
                self._thread.start()

    def __exit__(self, *_: object) -> None:
        self.is_away = False

    def end(self) -> None:
        """Have the thread end, and wait for that."""
        self._ended.set()
        if self._thread and self._thread.is_alive():
            self._thread.join()

    def _keep_looking(self) -> None:
        while (again := self._look()) is not None:
            if self._ended.wait(min(LONGEST_WAIT, max(0.0, again - time.monotonic()))):
                return
