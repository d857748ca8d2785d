"""How fast something goes lately, and how long the rest takes."""

from __future__ import annotations

from collections import deque

WINDOW = 30.0
"""Seconds that count as lately."""
_STEP = 0.5
"""Seconds between two points that are remembered."""


class Rate:
    """Counts what is done in a second.

    Args:
        began: When it began, on the monotonic clock.
    """

    def __init__(self, began: float) -> None:
        self._points: deque[tuple[float, int]] = deque([(began, 0)])

    def at(self, now: float, done: int) -> float:
        """Return how much is done in a second.

        Args:
            now: This moment.
            done: How much is done in all.
        """
        while len(self._points) > 1 and now - self._points[1][0] >= WINDOW:
            self._points.popleft()
        then, before = self._points[0]
        if now - self._points[-1][0] >= _STEP:
            self._points.append((now, done))
        return (done - before) / (now - then) if now > then else 0.0
