"""Notices of background processes: a process has ended, or a line of its output matched a watched pattern.

Each notice is delivered once: with the next result of `terminal` or `process`, by `take_notices`, or to the callbacks
of `on_notice`, which get all notices while there are any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.log import logger

MOST_COUNTED = 10_000
"""Matches counted in one notice. Further ones are not searched for until it is delivered."""
MOST_WAITING = 256
"""Undelivered notices of one environment; beyond that the oldest are dropped."""
INTERVAL = 1.0
"""Seconds between two deliveries to callbacks, which merge a flood of matches into few notices."""
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
    """Of a watch: matching lines since the last delivered notice of this pattern; 10,000 means that or more."""


NoticeCallback = Callable[[Notice], object]
_Key = tuple[str, str]


class NoticeBox:
    """Undelivered notices of one environment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[_Key, Notice] = {}
        self._callbacks: list[NoticeCallback] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, notice: Notice) -> None:
        """Add a notice."""
        with self._changed:
            if self._closed:
                return
            key = notice["process_id"], notice.get("pattern", "")
            self._waiting.pop(key, None)
            while len(self._waiting) >= MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[key] = notice
            self._changed.notify_all()

    def count_again(self, process_id: str, pattern: str, count: int) -> bool:
        """Add matches to an undelivered notice; return False if there is none."""
        with self._changed:
            waiting = self._waiting.get((process_id, pattern))
            if waiting is None:
                return False
            waiting["count"] = min(MOST_COUNTED, waiting.get("count", 0) + count)
            return True

    def is_full(self, process_id: str, pattern: str) -> bool:
        """Return True if an undelivered notice has counted the most."""
        with self._changed:
            waiting = self._waiting.get((process_id, pattern))
            return waiting is not None and waiting.get("count", 0) >= MOST_COUNTED

    def drain(self, but: str = "") -> list[Notice]:
        """Remove and return the undelivered notices, the oldest first; none while there is a callback.

        Args:
            but: The id of a process whose notices stay.
        """
        with self._changed:
            return [] if self._callbacks else self._drained(but)

    def _drained(self, but: str = "") -> list[Notice]:
        left = {key: notice for key, notice in self._waiting.items() if notice["process_id"] == but}
        drained = [notice for notice in self._waiting.values() if notice["process_id"] != but]
        self._waiting = left
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
                self._changed.wait_for(lambda: self._waiting or self._is_over)
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
            self._waiting, self._callbacks = {}, []
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

    Their cause are commands that `terminal` started with `background=True` and `notify_on_exit` or `watch`. A notice
    returned here comes with no result of a tool.
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
