"""The calls that move files in an environment, which end before everything else of it does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from environments.cancellation import CancelScope, current_scope, ended_in_scope
from environments.errors import CLEANED_UP, TerminalError

PATIENCE = 3.0
"""Seconds to wait for them to end. What a service moves in one piece may take longer, and is then cut off."""


class FileCalls:
    """Those that are under way. Whatever kills one leaves a part of a file in the target; it removes that itself."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way: dict[CancelScope, int] = {}
        """The scope that each is in, and its thread."""
        self._is_over = False

    def check(self) -> None:
        """Raise TerminalError if there may be none any more."""
        if self._is_over:
            raise TerminalError(CLEANED_UP)

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Let the block be one of them: it is in a scope of its own, which ends with that of its caller, or by `end`.

        Raises:
            TerminalError: They were ended.
        """
        outer = current_scope()
        scope = CancelScope(is_trusted=outer is None or outer.is_trusted)
        try:
            with self._changed:
                self.check()
                self._under_way[scope] = threading.get_ident()
            with ended_in_scope(scope.cancel), scope.active():
                yield
        finally:
            with self._changed:
                self._under_way.pop(scope, None)
                self._changed.notify_all()

    def end(self) -> None:
        """Cancel them, let no more begin, and wait until they have ended, but for those of the current thread."""
        with self._changed:
            self._is_over = True
            scopes = list(self._under_way)
        for scope in scopes:
            scope.cancel()
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: all(thread == me for thread in self._under_way.values()), PATIENCE)
