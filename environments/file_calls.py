"""The calls that move files in an environment, which end before everything else of it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from environments.cancellation import CancelScope, check_scope, current_scope, ended_in_scope
from environments.contexts import holding
from environments.errors import CLEANED_UP, CallCancelledError, TerminalError
from environments.loop import Pieces, current, shielded, spawn
from environments.progress import reports_of

T = TypeVar("T")

PATIENCE = 3.0
"""Seconds to wait for them to end. What a service moves in one piece may take longer, and is then cut off."""


class FileCalls:
    """Those that are under way, on the loop. One that is killed leaves a part of a file; each removes that itself."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[object], CancelScope] = {}
        self._is_over = False

    def check(self) -> None:
        """Raise TerminalError if there may be none any more."""
        if self._is_over:
            raise TerminalError(CLEANED_UP)

    async def do(self, work: Callable[[], Awaitable[T]], reports: Pieces | None) -> T:
        """Do the work of one of them, in a task and a scope of its own.

        The scope ends with that of the caller, with a caller that leaves, and by `end`. It ends the work's commands,
        and its functions in worker threads at their next look. The task itself is never cancelled.

        Args:
            work: A coroutine function.
            reports: Takes reports to the caller.

        Raises:
            CallCancelledError: The scope of the caller was cancelled.
            TerminalError: They were ended.
        """
        check_scope()
        self.check()
        scope = CancelScope(outer=current_scope())

        async def done() -> T:
            with scope.active(), holding(reports_of, reports):
                return await work()

        task = spawn(done())
        self._under_way[task] = scope
        try:
            with ended_in_scope(scope.cancel), scope.calling(lambda: _drop(reports)):
                return await shielded(task)
        except asyncio.CancelledError:  # the caller has left
            scope.cancel()
            await asyncio.wait((task,))
            _ = task.cancelled() or task.exception()  # of which nobody is told
            raise
        except Exception as error:
            if not scope.cancelled:
                raise
            self.check()
            raise CallCancelledError("the scope that it was called in was cancelled, and it was ended") from error
        finally:
            del self._under_way[task]

    async def end(self) -> None:
        """Cancel them, let no more begin, and wait until they have ended."""
        self._is_over = True
        for scope in self._under_way.values():
            scope.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=PATIENCE)


def _drop(reports: Pieces | None) -> None:
    """Have nothing wait for the callback any more."""
    if reports is not None:
        current().soon(reports.drop)
