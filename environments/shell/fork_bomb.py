"""Ending a command where processes may run out, or have: by a shell that waits in the target, and that starts none.

Of a fork bomb whatever is told to end makes room for another to begin, and nothing of ours can begin any more. To be
stopped frees no place. So all are stopped, then looked at, and what is the command's is ended before others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import NamedTuple, Protocol

from environments.shell.dialect.commands import counting_processes, signalling
from environments.shell.process_table import is_number

FEW_ALLOWED = 2048
"""A limit up to which nothing is started to end a command: by the time it is, a bomb may have come up to the limit."""
MANY = 64
"""Processes among which ours gets too little of the processor to look at them while they run."""
FULL = 0.75
"""Share of the allowed processes above which there is no time for grace: a bomb comes and goes below its limit."""
EVERYONE = 1
"""The group by whose negative number `kill` reaches all processes but the shell that asks and the first one."""


class RunAlone(Protocol):
    """Runs a command of our own in a shell that waits in the target, without starting a process."""

    def __call__(self, text: str) -> Awaitable[str]:
        """Run shell text of builtins alone, and return what it prints.

        Raises:
            TerminalError: The target does not answer.
        """


class Census(NamedTuple):
    """How many processes there are, and how many there may be, if that is limited."""

    size: int
    limit: int | None

    @property
    def is_close(self) -> bool:
        """Whether the limit is one that a command comes up to in no time."""
        return self.limit is not None and self.limit <= FEW_ALLOWED

    @property
    def is_full(self) -> bool:
        """Whether there are about as many as there may be."""
        return self.limit is not None and self.size >= FULL * self.limit

    @property
    def is_crowd(self) -> bool:
        """Whether they have to be stopped to be ended."""
        return self.is_full or (self.is_close and self.size >= MANY)


class Crowd:
    """The processes of a target, counted and signalled by a shell that starts none.

    Args:
        run: Runs text in that shell.
        is_ours: Says whether all processes in sight are the environment's, so that all may be stopped for a moment.
        limit: The limit that the environment has set, as it may not be seen in the target; None or 0 is none.

    Attributes:
        lock: To be held while anything is stopped, as one shell of ours would stop another that does the same.
    """

    def __init__(self, run: RunAlone, is_ours: Callable[[], bool], limit: int | None) -> None:
        self._run = run
        self.lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self._is_ours = is_ours
        self._limit = limit

    @property
    def is_ours(self) -> bool:
        """Whether all processes in sight are the environment's."""
        return self._is_ours()

    async def run(self, text: str) -> str:
        """Run text in that shell, see `RunAlone`. A task that holds the lock does not wait for it."""
        if self._holder is asyncio.current_task():
            return await self._run(text)
        async with self.lock:
            return await self._run(text)

    @contextlib.asynccontextmanager
    async def stopping(self) -> AsyncIterator[None]:
        """Let no other task signal processes in the block."""
        async with self.lock:
            self._holder = asyncio.current_task()
            try:
                yield
            finally:
                self._holder = None

    async def census(self) -> Census:
        """Count the processes, by the limit that is nearest.

        Raises:
            TerminalError: The target does not answer.
        """
        lines = [line.split() for line in (await self.run(counting_processes(self._limit))).splitlines()]
        numbers = [words for words in lines if len(words) == 2 and all(map(is_number, words))]
        found = [Census(int(size), int(limit)) for size, limit in numbers]
        return min(found, key=lambda census: (census.limit or 0) - census.size, default=Census(0, None))

    @property
    def most_running(self) -> int | None:
        """Above how many processes all are to be stopped to be looked at; None if not all may be."""
        return MANY if self.is_ours else None

    def to_stop(self, groups: Collection[int]) -> list[int]:
        """Return which groups to stop, if these are known to be the command's."""
        return [EVERYONE] if self.is_ours else [group for group in groups if group > 1]

    async def let_go(self, groups: Collection[int]) -> None:
        """Let those go on that were stopped. Raises as `census` does."""
        if stopped := self.to_stop(groups):
            await self.run(signalling("CONT", [-group for group in stopped]))
