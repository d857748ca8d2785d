"""A pool of environments: started ahead or on demand, leased, and removed when idle, lost or used up."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import math
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from environments.base import BaseEnvironment
from environments.cancellation import check_scope
from environments.errors import TerminalError
from environments.factory import environment_of
from environments.log import logger
from environments.loop import current, in_worker, run, run_async, shielded, spawn
from environments.options import check_count, check_seconds, check_timeout
from environments.pool.backoff import StartPlace, Verdict, delay, verdict
from environments.pool.lease import Lease, PooledEnvironment
from environments.registry import backend_class
from environments.settings import EnvironmentSettings
from environments.tasks import TaskSettings

RETRY_DELAY = 2.0
"""Seconds until the next step after a step failed by an unexpected error of a backend."""
REFUSALS = 6
"""Consecutive refusals by an engine before waiting leases fail; with backoff, about half a minute."""
CLEANUPS_AT_ONCE = 16
"""Number of environments cleaned up in parallel when the pool closes."""

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts of a pool at one moment. `idle + lent + starting + ending` never exceeds `max`."""

    idle: int
    """Ready environments without a lease."""
    lent: int
    """Leased environments."""
    starting: int
    """Environments being started, or reset after a lease."""
    ending: int
    """Environments being removed."""
    waiting: int
    """Leases waiting for an environment."""
    started: int
    """Successful starts since the pool was created."""
    failed: int
    """Failed starts since the pool was created."""


class Pool:
    """A pool of ready environments, with target and session up. Thread-safe.

    Each environment serves one lease and is then removed, unless `uses` allows more. Leave the `with` block, or call
    `close`, to remove all environments.

    Args:
        settings: Name of a backend, loaded settings, or arguments of `create_environment` by name, with `backend` as
            the backend's name; None uses the configuration. Each environment gets its own `task_id`.
        min: Number of environments kept ready for the next leases.
        max: Maximum number of environments, including those being started or removed.
        idle: Seconds until an idle environment beyond `min` is removed.
        uses: Maximum leases of one environment. Before each further lease, all processes are ended and a new session
            begins; files of earlier leases stay.
        start_rate: Maximum starts a second, shared with other pools on the same engine, host or service; None is the
            backend's default.
        max_starting: Maximum starts in progress, shared likewise.

    Raises:
        SettingsError: The settings are invalid.
        MissingExtraError: The backend's client library is not installed.
        TypeError: A number has the wrong type.
        ValueError: A number is out of range.
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
        self._hooks: Mapping[str, Any] = {}
        if isinstance(settings, EnvironmentSettings):
            self.settings = settings
            """Common settings of all environments."""
        else:
            asked = TaskSettings(settings if isinstance(settings, Mapping) else {"backend": settings})
            self.settings, self._hooks = asked.loaded(), asked.hooks
        backend = backend_class(self.settings.env)
        limits = backend.start_limits(self.settings)
        self._place = StartPlace.of(self.settings, limits.place)
        rate = limits.per_second if start_rate is None else start_rate
        self._limits = replace(limits, per_second=rate, at_once=max_starting or limits.at_once)
        self._min, self._max, self._idle_limit, self._uses = min, max, idle, uses
        self._name = f"backend {self.settings.env!r}"
        self._task_ids = (f"{self.settings.task_id}-{secrets.token_hex(3)}-{number}" for number in itertools.count(1))
        self._pid = os.getpid()
        # The rest belongs to the loop thread.
        self._idle: list[PooledEnvironment] = []
        self._lent: set[PooledEnvironment] = set()
        self._starting: set[PooledEnvironment] = set()
        self._ending: set[PooledEnvironment] = set()
        self._waiting: deque[Lease] = deque()
        self._refusal: BaseException | None = None
        self._started = self._failed = self._failed_in_a_row = 0
        self._retry_at = 0.0
        """Earliest time to start environments ahead after a failed start, on the monotonic clock."""
        self._last_check = time.monotonic()
        self._changed = asyncio.Event()
        self._maintenance: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        atexit.register(self.close)  # after the backend's import, so that `close` runs before the backend's own exit
        if min:
            current().soon(self._start_maintenance)

    # In the caller's thread.

    @contextlib.contextmanager
    def environment(
        self, timeout: float | None = None, *, interrupt: threading.Event | None = None
    ) -> Iterator[BaseEnvironment]:
        """Lease an environment for the block. Waiting leases are served in order.

        Args:
            timeout: Maximum seconds to wait; None is no limit. The wait also ends with the scope or the `start_limit`
                of the current thread.
            interrupt: Event that ends the wait.

        Raises:
            EnvironmentStartError: The start failed; a `StartStoppedError` after the time-out.
            CallCancelledError: The wait was interrupted, or the scope cancelled.
            TerminalError: The pool was closed, or belongs to another process.
            TypeError: The timeout is not a number.
            ValueError: The timeout is below 0.
        """
        lease = self.new_lease(timeout, interrupt)
        try:
            env = run(lambda _: self.acquire(lease))
            lease.has_begun = True
            yield env
        finally:
            self.release(lease)

    def new_lease(self, timeout: float | None, interrupt: threading.Event | None = None) -> Lease:
        """Return a lease for `acquire`, for callers on an event loop. Arguments and errors: see `environment`."""
        self._check_process()
        if timeout is not None:
            timeout = check_timeout(timeout)
        check_scope()
        return Lease(self.settings.env, timeout, interrupt)

    def release(self, lease: Lease) -> None:
        """End a lease, in any thread. Its environment is reset for the next lease, or removed."""
        if self._is_ours:
            current().soon(self._end_lease, lease)

    def stats(self) -> PoolStats:
        """Return the counts of the pool."""
        self._check_process()
        return run(lambda _: self._count())

    def close(self) -> None:
        """Remove all environments, including those leased or being started, and return when they are gone.

        Waiting leases fail. A second call does nothing; callable from any thread. In a forked child, does nothing.
        """
        if self._is_ours:
            run(lambda _: self._close())
            atexit.unregister(self.close)

    @property
    def _is_ours(self) -> bool:
        return self._pid == os.getpid()

    def _check_process(self) -> None:
        if not self._is_ours:
            raise TerminalError(
                f"this pool (backend {self.settings.env!r}) belongs to process {self._pid}, the parent of this fork; "
                "create a pool in this process"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # On the loop thread: maintenance. Blocking calls of a backend run on worker threads.

    async def _count(self) -> PoolStats:
        return PoolStats(
            idle=len(self._idle),
            lent=len(self._lent),
            starting=len(self._starting),
            ending=len(self._ending),
            waiting=len(self._waiting),
            started=self._started,
            failed=self._failed,
        )

    def _start_maintenance(self) -> None:
        """Start the maintenance task, unless running."""
        if self._maintenance is None and self._closing is None:
            self._place.watch(self._changed.set)
            self._maintenance = _detached_task(self._maintain())

    async def _maintain(self) -> None:
        while self._closing is None:
            self._changed.clear()
            try:
                wait = await self._step()
            except Exception as error:  # no error of a backend may end the pool
                log.warning("%s: the pool's maintenance failed and is tried again: %r", self._name, error)
                wait = RETRY_DELAY
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait == math.inf else wait):
                    await self._changed.wait()

    async def _step(self) -> float:
        """Remove and start environments as due, and return seconds until the next step."""
        waits = [self._remove_old(), await self._remove_lost()]
        while (wait := self._next_start()) == 0:
            if wait := self._place.begin(self._limits):
                break
            member = PooledEnvironment()
            self._starting.add(member)
            self._spawn(self._start(member))
        return min(*waits, wait)

    def _next_start(self) -> float:
        """Return seconds until the next start is due; infinity if none is."""
        supply = len(self._idle) + len(self._starting)
        total = supply + len(self._lent) + len(self._ending)
        if self._closing or total >= self._max or supply >= len(self._waiting) + self._min:
            return math.inf
        if supply < len(self._waiting):
            return 0.0
        return max(0.0, self._retry_at - time.monotonic())

    def _remove_old(self) -> float:
        """Remove environments beyond `min` after their idle time, and return seconds until the next removal."""
        spare = max(0, len(self._idle) - self._min)
        now = time.monotonic()
        old = [each for each in self._idle[:spare] if now - each.idle_since >= self._idle_limit]
        for member in old:
            self._remove(member)
        return math.inf if len(old) == spare else max(0.0, self._idle[0].idle_since + self._idle_limit - now)

    async def _remove_lost(self) -> float:
        """Remove idle environments whose target was lost, and return seconds until the next check."""
        if not self._idle:
            return math.inf
        interval = self._limits.look_interval
        if time.monotonic() - self._last_check >= interval:
            self._last_check = time.monotonic()
            for member in self._idle.copy():
                if not await in_worker(_is_ready, member) and member in self._idle:
                    log.info("%s: an environment was lost before it was lent", self._name)
                    self._remove(member)
        return max(0.0, self._last_check + interval - time.monotonic())

    # On the loop thread: starts.

    async def _start(self, member: PooledEnvironment) -> None:
        """Create and start an environment, permitted by the place."""
        try:
            settings = replace(self.settings, task_id=next(self._task_ids))
            member.env = await in_worker(lambda: environment_of(settings, **self._hooks))
            self._check_open()
            await run_async(member.env.prepare)
        except BaseException as error:  # any error of an external backend or of a user's callback
            self._on_start_failed(error)
            await self._clean_up(member)
        else:
            self._place.end(refused=False)
            self._started += 1
            self._failed_in_a_row, self._refusal = 0, None
            self._on_started(member)

    def _on_started(self, member: PooledEnvironment) -> None:
        if member in self._starting:  # False during removal, once the pool is closed
            self._starting.discard(member)
            self._add_idle(member)

    def _on_start_failed(self, error: BaseException) -> None:
        meaning = verdict(error)
        refusals = self._place.end({Verdict.BUSY: True, Verdict.PERMANENT: False}.get(meaning))
        if self._closing:
            return
        log.info("%s: a start of the pool has failed: %s", self._name, error)
        self._failed += 1
        self._failed_in_a_row += 1
        self._retry_at = time.monotonic() + delay(self._failed_in_a_row)
        if meaning is Verdict.BUSY:
            self._refusal = error
            for lease in self._waiting:
                lease.refusal = error
        if meaning is Verdict.PERMANENT or (meaning is Verdict.BUSY and refusals >= REFUSALS):
            self._fail_all(error)
        elif meaning is Verdict.TRANSIENT and self._waiting:
            self._waiting.popleft().fail(error)

    def _fail_all(self, error: BaseException) -> None:
        while self._waiting:
            self._waiting.popleft().fail(error)

    # On the loop thread: leases.

    async def acquire(self, lease: Lease) -> BaseEnvironment:
        """Grant a lease the most recently used environment, or queue the lease. Called on the loop.

        Raises:
            TerminalError: The pool was closed.
            EnvironmentStartError, CallCancelledError: See `environment`.
        """
        self._check_open()
        self._start_maintenance()
        lease.refusal = self._refusal
        self._waiting.append(lease)
        self._grant_leases()
        self._changed.set()
        while True:
            member = await lease.wait()
            if await in_worker(_is_ready, member):
                assert member.env
                return member.env
            self._remove(member)
            self._check_open()
            lease.member = None
            self._waiting.appendleft(lease)  # first in the queue
            self._grant_leases()

    def _check_open(self) -> None:
        if self._closing:
            raise _closed()

    def _add_idle(self, member: PooledEnvironment) -> None:
        member.idle_since = time.monotonic()
        self._idle.append(member)
        self._grant_leases()
        self._changed.set()

    def _grant_leases(self) -> None:
        while self._waiting and self._idle:
            member = self._idle.pop()
            member.uses += 1
            self._lent.add(member)
            self._waiting.popleft().grant(member)

    def _end_lease(self, lease: Lease) -> None:
        if lease in self._waiting:
            self._waiting.remove(lease)
        member, lease.member = lease.member, None
        if member not in self._lent or member is None:
            self._changed.set()
        elif not lease.has_begun:
            self._lent.discard(member)
            member.uses -= 1
            self._add_idle(member)
        elif member.uses < self._uses:
            self._lent.discard(member)
            self._starting.add(member)
            self._spawn(self._reset(member))
        else:
            self._remove(member)

    async def _reset(self, member: PooledEnvironment) -> None:
        """Reset an environment for the next lease."""
        assert member.env
        try:
            await run_async(member.env.renew)
            await run_async(member.env.prepare)
        except BaseException as error:
            log.info("%s: an environment is not lent again: %s", self._name, error)
            await self._clean_up(member)
        else:
            self._on_started(member)

    # On the loop thread: ends.

    def _remove(self, member: PooledEnvironment) -> None:
        """Remove an environment in any state, in a separate task."""
        self._mark_ending(member)
        self._spawn(self._clean_up(member))

    def _mark_ending(self, member: PooledEnvironment) -> None:
        if member in self._idle:
            self._idle.remove(member)
        self._lent.discard(member)
        self._starting.discard(member)
        self._ending.add(member)

    async def _clean_up(self, member: PooledEnvironment) -> None:
        self._mark_ending(member)
        try:
            if member.env:
                await run_async(member.env.cleanup)
        except BaseException as error:  # an external backend may raise anything
            what = str(error) if isinstance(error, TerminalError) else type(error).__name__
            log.warning("%s: an environment could not be cleaned up: %s", self._name, what)
        self._ending.discard(member)
        self._changed.set()

    async def _close(self) -> None:
        """Close the pool. All callers wait for one task, which continues if a caller is cancelled."""
        if self._closing is None:
            self._closing = spawn(self._clean_up_all())
        await shielded(self._closing)

    async def _clean_up_all(self) -> None:
        self._place.unwatch(self._changed.set)
        self._changed.set()
        self._fail_all(_closed())
        room = asyncio.Semaphore(CLEANUPS_AT_ONCE)

        async def end(member: PooledEnvironment) -> None:
            async with room:
                await self._clean_up(member)

        await asyncio.gather(*map(end, {*self._idle, *self._lent, *self._starting}))
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._maintenance:
            await shielded(self._maintenance)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        job = _detached_task(work)
        self._tasks.add(job)
        job.add_done_callback(self._tasks.discard)


def _detached_task(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run a coroutine outside of the scope and limits of the lease that caused it.

    The program's exit does not wait for the task, as `close` runs at exit.
    """
    return current().loop.create_task(work, context=Context())


def _is_ready(member: PooledEnvironment) -> bool:
    return member.env is not None and member.env.is_ready


def _closed() -> TerminalError:
    return TerminalError("the pool was closed; make a new one")


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
