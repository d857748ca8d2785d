"""The calls that move files in an environment, which end before everything else of it does."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from environments.cancellation import CancelScope, current_scope, ended_in_scope
from environments.errors import CLEANED_UP, TerminalError

PATIENCE = 3.0
"""Seconds to wait for them to end. What a service moves in one piece may take longer, and is then cut off."""
_LOOK_AGAIN = 0.005


class FileCalls:
    """Those that are under way. Whatever kills one leaves a part of a file in the target; it removes that itself.

    It has no lock: each step is one operation of a dict, which no exception in a caller's thread can cut.
    """

    def __init__(self) -> None:
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
            self._under_way[scope] = threading.get_ident()
            self.check()  # behind the line above: `end` sees this call, or is seen by it
            with ended_in_scope(scope.cancel), scope.active():
                yield
        finally:
            self._under_way.pop(scope, None)

    def end(self) -> None:
        """Cancel them, let no more begin, and wait until they have ended, but for those of the current thread."""
        self._is_over = True
        for scope in list(self._under_way):
            scope.cancel()
        me, deadline = threading.get_ident(), time.monotonic() + PATIENCE
        while any(thread != me for thread in list(self._under_way.values())) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN)
