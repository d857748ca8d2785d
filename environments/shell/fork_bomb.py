"""Fork bomb handling: ends a command when no process can be started, by builtins of a shell waiting in the target.

Each ended process of a fork bomb makes room for another fork, and internal commands cannot fork either. Stopped
processes keep their places. So all processes are stopped, then searched, and the command's are ended before the others
continue.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import NamedTuple, Protocol

from environments.shell.dialect.commands import counting_processes, signalling
from environments.shell.process_table import is_number

FEW_ALLOWED = 2048
"""Process limit up to which the search starts no process: during the search, a fork bomb may reach the limit."""
MANY = 64
"""Process count above which running processes leave too little of the processor for a search."""
FULL = 0.75
"""Share of the process limit above which a command gets no grace: a fork bomb varies below its limit."""
ALL_PROCESSES = 1
"""The group with a negative number for `kill` that reaches all processes but the calling shell and process 1."""


class RunBuiltins(Protocol):
    """Runs text of builtins in a waiting shell, without a new process."""

    def __call__(self, text: str) -> Awaitable[str]:
        """Run the text, and return its output.

        Raises:
            TerminalError: The target does not answer.
        """


class ProcessCount(NamedTuple):
    """The count of processes, and their limit if any."""

    size: int
    limit: int | None

    @property
    def has_low_limit(self) -> bool:
        """True if a command can reach the limit in no time."""
        return self.limit is not None and self.limit <= FEW_ALLOWED

    @property
    def is_full(self) -> bool:
        """True near the limit."""
        return self.limit is not None and self.size >= FULL * self.limit

    @property
    def must_be_stopped(self) -> bool:
        """True if the processes have to be stopped first."""
        return self.is_full or (self.has_low_limit and self.size >= MANY)


class ForkBombHandler:
    """Counts, stops and signals the processes of a target by builtins alone.

    Args:
        run: Runs text of builtins in the target.
        owns_all_processes: Returns True if all visible processes are the environment's, so that all may be stopped.
        limit: The limit set by the environment, as it may be invisible in the target; None or 0 is none.

    Attributes:
        lock: Held while processes are stopped: internal shells would stop each other.
    """

    def __init__(self, run: RunBuiltins, owns_all_processes: Callable[[], bool], limit: int | None) -> None:
        self._run = run
        self.lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None
        self._owns_all = owns_all_processes
        self._limit = limit

    @property
    def owns_all_processes(self) -> bool:
        """True if all visible processes are the environment's."""
        return self._owns_all()

    async def run(self, text: str) -> str:
        """Run text of builtins, see `RunBuiltins`. A task with the lock does not wait for the lock."""
        if self._holder is asyncio.current_task():
            return await self._run(text)
        async with self.lock:
            return await self._run(text)

    @contextlib.asynccontextmanager
    async def stopping(self) -> AsyncIterator[None]:
        """Block signals by other tasks during the block."""
        async with self.lock:
            self._holder = asyncio.current_task()
            try:
                yield
            finally:
                self._holder = None

    async def count(self) -> ProcessCount:
        """Return the count and limit of processes, for the limit nearest to its count.

        Raises:
            TerminalError: The target does not answer.
        """
        lines = [line.split() for line in (await self.run(counting_processes(self._limit))).splitlines()]
        numbers = [words for words in lines if len(words) == 2 and all(map(is_number, words))]
        found = [ProcessCount(int(size), int(limit)) for size, limit in numbers]
        return min(found, key=lambda count: (count.limit or 0) - count.size, default=ProcessCount(0, None))

    @property
    def most_running(self) -> int | None:
        """The process count above which a search stops all processes; None if not all may be stopped."""
        return MANY if self.owns_all_processes else None

    def groups_to_stop(self, groups: Collection[int]) -> list[int]:
        """Return the process groups to stop, given the command's groups."""
        return [ALL_PROCESSES] if self.owns_all_processes else [group for group in groups if group > 1]

    async def resume(self, groups: Collection[int]) -> None:
        """Continue stopped groups. Raises as `count` does."""
        if stopped := self.groups_to_stop(groups):
            await self.run(signalling("CONT", [-group for group in stopped]))
