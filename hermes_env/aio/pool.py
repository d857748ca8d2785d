"""A pool of environments that are awaited."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Self

from environments import EnvironmentSettings, Pool
from environments.pool import PoolStats
from hermes_env.aio.calls import as_coroutine, awaited
from hermes_env.aio.environment import AsyncEnvironment


class AsyncPool:
    """Lends environments that are ready, see `environments.Pool`: the same arguments, awaited.

    Leave the `async with` block, or await `close`, and nothing stays behind. The arguments, and the errors, are those
    of `Pool`.
    """

    def __init__(
        self,
        settings: str | EnvironmentSettings | Mapping[str, object] | None = None,
        min: int = 0,
        max: int = 8,
        idle: float = 300.0,
        uses: int = 1,
        *,
        start_rate: float | None = None,
        max_starting: int | None = None,
    ) -> None:
        self._pool = Pool(settings, min, max, idle, uses, start_rate=start_rate, max_starting=max_starting)

    @property
    def sync(self) -> Pool:
        """The pool beneath."""
        return self._pool

    @contextlib.asynccontextmanager
    async def environment(self, timeout: float | None = None) -> AsyncIterator[AsyncEnvironment]:
        """Lend an environment for the block, see `Pool.environment`. A task that is cancelled waits no longer.

        Args:
            timeout: Seconds to wait for one; None is for as long as it takes.

        Raises:
            EnvironmentStartError: One could not be started; a `StartStoppedError` if it took too long.
            TerminalError: The pool was closed.
        """
        pool = self._pool
        borrower = pool._borrower(timeout)
        try:
            env = await awaited(lambda _: pool._keeper.lend(borrower))
            borrower.has_begun = True
            yield AsyncEnvironment.of(env)
        finally:
            pool._take_back(borrower)

    def stats(self) -> PoolStats:
        """Return how many environments there are, and what they do."""
        return self.sync.stats()

    close = as_coroutine(Pool.close, to_end=True)
    """Remove all environments, see `Pool.close`, also when the task is cancelled meanwhile."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
