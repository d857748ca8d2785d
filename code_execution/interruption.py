"""Whether the caller of a script still waits for it."""

from __future__ import annotations

import threading

from environments.cancellation import current_scope


class Interruption:
    """What may end a script from outside: the caller's event, and the scope that the caller's thread works in.

    Args:
        event: That event, if there is one.
    """

    def __init__(self, event: threading.Event | None) -> None:
        self._event = event
        self._scope = current_scope()

    @property
    def may_come(self) -> bool:
        """Whether there is anything to look at."""
        return self._event is not None or self._scope is not None

    def has_come(self) -> bool:
        """Return whether nobody waits any more."""
        return bool((self._event and self._event.is_set()) or (self._scope and self._scope.cancelled))
