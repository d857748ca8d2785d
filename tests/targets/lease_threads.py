"""Borrowers of a pool, each in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from environments import BaseEnvironment, Pool, TerminalError
from environments.conformance.check import wait_until

LONG = 60.0
"""Seconds that nothing takes which is waited for."""


class LeaseThread:
    """One that does something in an environment of a pool.

    Args:
        pool: The pool.
        work: What it does there.
        within: What it does all of that in, such as a scope.
        how: How it waits.
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
        """Wait until it is done, and return what came of it."""
        self._thread.join(LONG)
        assert not self._thread.is_alive(), "it waits for ever"
        return self.error or self.result


@contextmanager
def all_leased(pool: Pool, number: int = 1) -> Iterator[list[BaseEnvironment]]:
    """Have so many environments lent in the block."""
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
    """Wait until a condition holds, however busy the machine is."""
    return wait_until(holds, LONG)
