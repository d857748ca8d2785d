"""Threads that lease environments of a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from environments import BaseEnvironment, Pool, TerminalError
from environments.conformance.check import wait_until

LONG = 60.0
"""Time-out of a wait in seconds, far above any real duration."""


class LeaseThread:
    """A thread with a lease of an environment.

    Args:
        pool: The pool.
        work: A function of the environment; `result` has the returned value.
        within: A context, such as a scope, around the lease.
        how: Arguments of `Pool.environment`.
    """

    def __init__(
        self,
        pool: Pool,
        work: Callable[[BaseEnvironment], object] = lambda env: env.execute("echo works").output,
        within: AbstractContextManager[object] | None = None,
        **how: object,
    ) -> None:
        self.result: object = None
        self.error: TerminalError | None = None
        self._pool, self._work, self._within, self._how = pool, work, within or nullcontext(), how
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._within, self._pool.environment(**self._how) as env:  # type: ignore[arg-type]
                self.result = self._work(env)
        except TerminalError as error:
            self.error = error

    def join(self) -> object:
        """Wait for the thread's end, and return its result or error."""
        self._thread.join(LONG)
        assert not self._thread.is_alive(), "it waits for ever"
        return self.error or self.result


@contextmanager
def all_leased(pool: Pool, number: int = 1) -> Iterator[list[BaseEnvironment]]:
    """Lease a number of environments for the block."""
    done = threading.Event()
    envs: list[BaseEnvironment] = []

    def work(env: BaseEnvironment) -> None:
        envs.append(env)
        done.wait(LONG)

    borrowers = [LeaseThread(pool, work) for _ in range(number)]
    try:
        assert until(lambda: len(envs) == number)
        yield envs
    finally:
        done.set()
        for borrower in borrowers:
            borrower.join()


def until(holds: Callable[[], bool]) -> bool:
    """Wait until a condition is true, also on a busy machine."""
    return wait_until(holds, LONG)
