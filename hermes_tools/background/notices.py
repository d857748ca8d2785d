"""Telling whoever runs a model of what happened in the background: a process ended, or printed what was watched for.

A notice is told once: with the next result of `terminal` or `process`, to `take_notices`, or to a function that
`on_notice` was given, to which all go while there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal, NotRequired, TypedDict

from environments.base import BaseEnvironment
from environments.log import logger

MOST_COUNTED = 10_000
"""Up to which matches are counted for one notice. Further ones are not looked for until it is told."""
MOST_WAITING = 256
"""Notices of one environment that wait; beyond that the oldest are dropped."""
INTERVAL = 1.0
"""Seconds between two calls of those that want to be told, so that a flood of matches comes as few notices."""
_CLOSE_TIMEOUT = 5.0

log = logger(__name__)


class Notice(TypedDict):
    """What happened."""

    process_id: str
    kind: Literal["exit", "watch"]
    command: str
    status: NotRequired[str]
    """Of an exit: exited, killed or lost."""
    exit_code: NotRequired[int | None]
    """Of an exit; None if the target was lost."""
    pattern: NotRequired[str]
    """Of a watch: which pattern has matched."""
    text: NotRequired[str]
    """Of a watch: the first line that matched."""
    count: NotRequired[int]
    """Of a watch: how many lines have matched since the last notice of this pattern was told; 10,000 are many more."""


NoticeCallback = Callable[[Notice], object]
_Key = tuple[str, str]


class NoticeBox:
    """Notices of one environment that wait to be told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[_Key, Notice] = {}
        self._callbacks: list[NoticeCallback] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, notice: Notice) -> None:
        """Have a notice told."""
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
        """Count further matches to a notice that waits still, and return whether there is one."""
        with self._changed:
            waiting = self._waiting.get((process_id, pattern))
            if waiting is None:
                return False
            waiting["count"] = min(MOST_COUNTED, waiting.get("count", 0) + count)
            return True

    def is_full(self, process_id: str, pattern: str) -> bool:
        """Whether a notice waits to which nothing more is counted."""
        with self._changed:
            waiting = self._waiting.get((process_id, pattern))
            return waiting is not None and waiting.get("count", 0) >= MOST_COUNTED

    def take(self, but: str = "") -> list[Notice]:
        """Return what waits, the oldest first. Nothing does while there is a callback.

        Args:
            but: The process of which nothing is taken.
        """
        with self._changed:
            return [] if self._callbacks else self._taken(but)

    def _taken(self, but: str = "") -> list[Notice]:
        left = {key: notice for key, notice in self._waiting.items() if notice["process_id"] == but}
        taken = [notice for notice in self._waiting.values() if notice["process_id"] != but]
        self._waiting = left
        return taken

    def add_callback(self, callback: NoticeCallback) -> Callable[[], None]:
        """Have a function called with all notices from now on, see `on_notice`."""
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
                notices, callbacks = self._taken(), list(self._callbacks)
            for notice in notices:
                for callback in callbacks:
                    _tell(callback, notice)
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, INTERVAL)

    @property
    def _is_over(self) -> bool:
        return self._closed or not self._callbacks

    def close(self) -> None:
        """Tell nobody any more. Waits for a callback that runs, unless it is the caller."""
        with self._changed:
            self._closed = True
            self._waiting, self._callbacks = {}, []
            thread = self._thread
            self._changed.notify_all()
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_TIMEOUT)


def _tell(callback: NoticeCallback, notice: Notice) -> None:
    try:
        callback(notice.copy())
    except Exception:  # of somebody else's, in a thread that must go on
        log.exception("what on_notice was given failed")


def take_notices(env: BaseEnvironment) -> list[Notice]:
    """Return the notices of an environment that wait to be told, the oldest first.

    They are those of commands that `terminal` started with `background=True` and `notify_on_exit` or `watch`. What is
    returned here comes with no result of a tool any more.
    """
    return env.attachments.get(NoticeBox).take()


def on_notice(env: BaseEnvironment, callback: NoticeCallback) -> Callable[[], None]:
    """Have a function told of the notices of an environment, of those that wait and of all that come until `cleanup`.

    Args:
        env: The environment.
        callback: Takes a notice. It is called in a thread of ours, which waits for it; a second passes at least
            between two rounds, and what came in between is told together. What it raises is logged. While there is a
            callback, notices come with no result and not to `take_notices`.

    Returns:
        A function that ends it.
    """
    return env.attachments.get(NoticeBox).add_callback(callback)
