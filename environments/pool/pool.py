"""A pool: environments that are started ahead, and lent fresh to whoever needs one."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from environments.base import BaseEnvironment
from environments.cancellation import check_scope
from environments.errors import TerminalError
from environments.loop import current, run
from environments.options import check_count, check_patience, check_seconds
from environments.pool.borrower import Borrower
from environments.pool.keeper import Keeper, PoolStats
from environments.pool.recipe import Recipe
from environments.pool.start_place import start_place
from environments.settings import EnvironmentSettings


class Pool:
    """Lends environments that are ready: their target is up and their session open. It is thread-safe.

    Each is used by one borrower, and then removed, unless `uses` says otherwise. Leave the `with` block, or call
    `close`, and nothing stays behind.

    Args:
        settings: A backend's name, all settings, or the arguments of `create_environment` by name, where `backend`
            names the backend; None is what is configured. Each environment gets a `task_id` of its own.
        min: How many are to be ready for whoever comes next.
        max: How many there may be at once, with those that are being started or removed, as these are still there.
        idle: Seconds after which one goes that nobody has needed, if there are more than `min`.
        uses: How many borrowers one may have, one after the other. For each but the first, what was started before is
            ended and a new session begins; the files are those that the borrowers before have left.
        start_rate: How many starts may begin in a second, with those of other pools on the same engine, host or
            service; None is the backend's own.
        max_starting: How many starts may be under way, in the same way.

    Raises:
        SettingsError: The settings are not in order.
        MissingExtraError: The backend's client library is not installed.
        TypeError: A number is none.
        ValueError: A number is one that cannot be.
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
        _check_numbers(min, max, idle, uses, start_rate, max_starting)
        recipe = Recipe(settings)
        self.settings = recipe.settings
        """What its environments have in common."""
        self._pid = os.getpid()
        limits = recipe.backend.start_limits(recipe.settings)
        place = start_place(recipe.settings, limits.place)
        rate = limits.per_second if start_rate is None else start_rate
        at_once = limits.at_once if max_starting is None else max_starting
        limits = replace(limits, per_second=rate, at_once=at_once)
        self._keeper = Keeper(recipe, place, limits, min, max, idle, uses)
        atexit.register(self.close)  # behind the import of the backend, whose environments are ended before otherwise
        if min:
            current().soon(self._keeper.begin)

    @contextlib.contextmanager
    def environment(
        self, timeout: float | None = None, *, interrupt: threading.Event | None = None
    ) -> Iterator[BaseEnvironment]:
        """Lend an environment for the block. Those who wait for one are served in the order in which they came.

        Args:
            timeout: Seconds to wait for one; None is for as long as it takes. The wait also ends with the scope or the
                `start_limit` of the current thread.
            interrupt: Ends the wait when it is set.

        Raises:
            EnvironmentStartError: One could not be started; a `StartStoppedError` if it took too long.
            CallCancelledError: The wait was interrupted, or the scope cancelled.
            TerminalError: The pool was closed, or belongs to another process.
            TypeError: The timeout is no number.
            ValueError: It is below 0.
        """
        borrower = self._borrower(timeout, interrupt)
        try:
            env = run(lambda _: self._keeper.lend(borrower))
            borrower.has_begun = True
            yield env
        finally:
            self._take_back(borrower)

    def _borrower(self, timeout: float | None, interrupt: threading.Event | None = None) -> Borrower:
        self._check_process()
        if timeout is not None:
            timeout = check_patience(timeout)
        check_scope()
        return Borrower(self.settings.env, timeout, interrupt)

    def _take_back(self, borrower: Borrower) -> None:
        if self._is_ours:
            self._keeper.take_back(borrower)

    def stats(self) -> PoolStats:
        """Return how many environments there are, and what they do."""
        self._check_process()
        return run(lambda _: self._keeper.stats())

    def close(self) -> None:
        """Remove all environments, also those that are lent or being started, and return when they are gone.

        Those who wait for one are told. Safe to call twice, and from any thread. In a forked child it does nothing.
        """
        if self._is_ours:
            run(lambda _: self._keeper.close())
            atexit.unregister(self.close)

    @property
    def _is_ours(self) -> bool:
        return self._pid == os.getpid()

    def _check_process(self) -> None:
        if not self._is_ours:
            raise TerminalError(
                f"this pool (backend {self.settings.env!r}) belongs to process {self._pid}, of which this one is a "
                "fork; make one here"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_numbers(
    least: int, most: int, idle: float, uses: int, start_rate: float | None, max_starting: int | None
) -> None:
    for name, value in (("max", most), ("uses", uses), ("max_starting", 1 if max_starting is None else max_starting)):
        check_count(name, value)
    if isinstance(least, bool) or not isinstance(least, int):
        raise TypeError(f"min is of type {type(least).__name__}; give a whole number")
    if least < 0:
        raise ValueError(f"min is {least}; give at least 0")
    if least > most:
        raise ValueError(f"min is {least}, above max, which is {most}")
    if idle != 0 or isinstance(idle, bool):
        check_seconds("idle", idle)
    if start_rate is not None and (isinstance(start_rate, bool) or not isinstance(start_rate, int | float)):
        raise TypeError(f"start_rate is of type {type(start_rate).__name__}; give a number of starts in a second")
    if start_rate is not None and not start_rate > 0:
        raise ValueError(f"start_rate is {start_rate}; give starts in a second, above 0")
