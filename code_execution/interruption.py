"""Whether the caller of a script still waits for it."""

from __future__ import annotations

import threading

from environments.cancellation import current_scope

_OFTEN, _SELDOM = 0.05, 0.5
"""Seconds between two looks at an event or a scope, and at whether the caller has left."""


class Interruption:
    """What may end a script from outside: the caller's event, and the scope that the caller's thread works in.

    Args:
        event: That event, if there is one.
    """

    def __init__(self, event: threading.Event | None) -> None:
        self._event = event
        self._has_come = False
        self._scope = current_scope()

    @property
    def pause(self) -> float:
        """Seconds between two looks whether it has come: fewer where a person may be waiting for that."""
        return _OFTEN if self._event is not None or self._scope is not None else _SELDOM

    def come(self) -> None:
        """Have the script end, as its caller has left."""
        self._has_come = True

    def has_come(self) -> bool:
        """Return whether nobody waits any more."""
        return bool(self._has_come or (self._event and self._event.is_set()) or (self._scope and self._scope.cancelled))
