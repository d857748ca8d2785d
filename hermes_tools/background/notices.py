"""Notices of background processes: the end of a process, or a match of a watched pattern in its output.

Each notice is delivered once: with the next result of `terminal` or `process`, by `take_notices`, or to the callbacks
of `on_notice`, which take precedence. A rate limit merges matches for callbacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.log import logger

MAX_COUNTED = 10_000
"""Limit of the matches counted in a notice. Further matches are not searched for until its delivery."""
MAX_UNDELIVERED = 256
"""Limit of undelivered notices in an environment; above the limit the oldest are dropped."""
INTERVAL = 1.0
"""The rate limit of callbacks: seconds between two deliveries. Matches in between are merged."""
_CLOSE_TIMEOUT = 5.0

log = logger(__name__)


class Notice(TypedDict):
    """One event of a background process."""

    process_id: str
    kind: Literal["exit", "watch"]
    command: str
    status: NotRequired[str]
    """Of an exit: exited, killed or lost."""
    exit_code: NotRequired[int | None]
    """Of an exit; None if the target was lost."""
    pattern: NotRequired[str]
    """Of a watch: the pattern that matched."""
    text: NotRequired[str]
    """Of a watch: the first line that matched."""
    count: NotRequired[int]
    """Of a watch: matching lines since the last delivered notice of this pattern; 10,000 means 10,000 or more."""


NoticeCallback = Callable[[Notice], object]
_Key = tuple[str, str]


class NoticeBox:
    """The undelivered notices of an environment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._undelivered: dict[_Key, Notice] = {}
        self._callbacks: list[NoticeCallback] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, notice: Notice) -> None:
        """Add a notice."""
        with self._changed:
            if self._closed:
                return
            key = notice["process_id"], notice.get("pattern", "")
            self._undelivered.pop(key, None)
            while len(self._undelivered) >= MAX_UNDELIVERED:
                del self._undelivered[next(iter(self._undelivered))]
            self._undelivered[key] = notice
            self._changed.notify_all()

    def add_matches(self, process_id: str, pattern: str, count: int) -> bool:
        """Add matches to an undelivered notice; return False without such a notice."""
        with self._changed:
            waiting = self._undelivered.get((process_id, pattern))
            if waiting is None:
                return False
            waiting["count"] = min(MAX_COUNTED, waiting.get("count", 0) + count)
            return True

    def is_full(self, process_id: str, pattern: str) -> bool:
        """Return True if an undelivered notice has the maximum count."""
        with self._changed:
            waiting = self._undelivered.get((process_id, pattern))
            return waiting is not None and waiting.get("count", 0) >= MAX_COUNTED

    def drain(self, excluding: str = "") -> list[Notice]:
        """Remove and return the undelivered notices, the oldest first; empty while a callback is set.

        Args:
            excluding: The id of a process to skip.
        """
        with self._changed:
            return [] if self._callbacks else self._drained(excluding)

    def _drained(self, excluding: str = "") -> list[Notice]:
        left = {key: notice for key, notice in self._undelivered.items() if notice["process_id"] == excluding}
        drained = [notice for notice in self._undelivered.values() if notice["process_id"] != excluding]
        self._undelivered = left
        return drained

    def add_callback(self, callback: NoticeCallback) -> Callable[[], None]:
        """Add a callback, see `on_notice`."""
        with self._changed:
            if not self._closed:
                self._callbacks.append(callback)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._deliver, name="hermes-notices", daemon=True)
                    self._thread.start()
            self._changed.notify_all()
        return lambda: self._remove(callback)

    def _remove(self, callback: NoticeCallback) -> None:
        with self._changed:
            if callback in self._callbacks:
                self._callbacks.remove(callback)
            self._changed.notify_all()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._undelivered or self._is_over)
                if self._is_over:
                    self._thread = None
                    return
                notices, callbacks = self._drained(), list(self._callbacks)
            for notice in notices:
                for callback in callbacks:
                    _call(callback, notice)
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, INTERVAL)

    @property
    def _is_over(self) -> bool:
        return self._closed or not self._callbacks

    def close(self) -> None:
        """End delivery, and wait for a running callback, but not within that callback."""
        with self._changed:
            self._closed = True
            self._undelivered, self._callbacks = {}, []
            thread = self._thread
            self._changed.notify_all()
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_TIMEOUT)


def _call(callback: NoticeCallback, notice: Notice) -> None:
    try:
        callback(notice.copy())
    except Exception:  # the callback is foreign code, and the thread must continue
        log.exception("a callback of on_notice raised an exception")


def take_notices(env: BaseEnvironment) -> list[Notice]:
    """Remove and return the undelivered notices of an environment, the oldest first.

    Commands started by `terminal` with `background=True` and `notify_on_exit` or `watch` cause notices. A notice
    returned here does not come with the result of a tool.
    """
    return env.attachments.get(NoticeBox).drain()


def on_notice(env: BaseEnvironment, callback: NoticeCallback) -> Callable[[], None]:
    """Deliver the notices of an environment to a function, undelivered and later ones, until `cleanup`.

    Args:
        env: The environment.
        callback: Takes a notice. Called in a separate thread, in rounds at least a second apart; matches between two
            rounds are merged. Exceptions are logged. While there is a callback, notices come neither with results nor
            by `take_notices`.

    Returns:
        A function that removes the callback.
    """
    return env.attachments.get(NoticeBox).add_callback(callback)
