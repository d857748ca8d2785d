"""How fast targets are started in one place, such as on one engine, by all pools of this process together."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable

from environments.pool.refusal import delay
from environments.settings import EnvironmentSettings
from environments.starting import StartLimits


class StartPlace:
    """Where targets are started: counts what is under way there, and knows for how long it refuses.

    The methods are called on the loop thread.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._last = -math.inf
        self._refusals = 0
        self._of_one_wave = 0
        """How many starts are under way that had begun before it refused: if it refuses them, too, that is no news."""
        self._closed_until = -math.inf
        self._watchers: set[Callable[[], object]] = set()

    def begin(self, limits: StartLimits) -> float:
        """Begin a start if it may begin now; `end` is to follow.

        Args:
            limits: Those of who asks.

        Returns:
            0 if it has begun; else after how many seconds to ask again, which is infinite where a start has to end.
        """
        if limits.at_once is not None and self._under_way >= limits.at_once:
            return math.inf
        now = time.monotonic()
        free = max(self._closed_until, self._last + 1 / limits.per_second if limits.per_second else -math.inf)
        if now < free:
            return free - now
        # Where it has refused, one start finds out whether it still does.
        if self._refusals and self._under_way:
            return math.inf
        self._last = now
        self._under_way += 1
        return 0.0

    def end(self, refused: bool | None) -> int:
        """Note that a start has ended.

        Args:
            refused: Whether the place had too much to do; None where that is not known.

        Returns:
            How often in a row it has refused.
        """
        self._under_way -= 1
        if self._of_one_wave:
            self._of_one_wave -= 1
        elif refused:
            self._of_one_wave = self._under_way
            self._refusals += 1
            self._closed_until = time.monotonic() + delay(self._refusals)
        if refused is False:
            self._refusals = 0
        for watcher in list(self._watchers):
            watcher()
        return self._refusals

    def watch(self, callback: Callable[[], object]) -> None:
        """Have `callback` called whenever a start has ended, until `unwatch`."""
        self._watchers.add(callback)

    def unwatch(self, callback: Callable[[], object]) -> None:
        """Call it no more."""
        self._watchers.discard(callback)


_places: dict[tuple[str, str, str], StartPlace] = {}


def start_place(settings: EnvironmentSettings, name: str) -> StartPlace:
    """Return the place where targets of these settings are started; there is one for each engine, host or service."""
    return _places.setdefault((settings.env, settings.over or "", name), StartPlace())


os.register_at_fork(after_in_child=_places.clear)  # what is under way is the parent's
