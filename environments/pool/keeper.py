"""What a pool has, and what becomes of it: starts ahead and for those who wait, the end of what is old, lost or used.

All of it is the loop thread's. What a backend can only do by waiting runs on worker threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from environments.base import BaseEnvironment
from environments.errors import TerminalError
from environments.log import logger
from environments.loop import current, in_worker, shielded, spawn, work_of
from environments.pool.borrower import Borrower
from environments.pool.recipe import Recipe
from environments.pool.refusal import Verdict, delay, verdict
from environments.pool.start_place import StartPlace
from environments.starting import StartLimits

TRY_AGAIN = 2.0
"""Seconds until the next look behind one that a backend's fault has cut short."""
REFUSALS = 6
"""How often in a row an engine may refuse before those who wait are told; with the pauses, half a minute."""
ENDED_AT_ONCE = 16
"""How many environments are removed at the same time when the pool is closed."""
_NEVER = float("inf")

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class PoolStats:
    """The numbers of a pool at one moment. `idle + lent + starting + ending` is never above its `max`."""

    idle: int
    """Environments that are ready and lent to nobody."""
    lent: int
    """Environments that are in use."""
    starting: int
    """Environments that are being started, or made anew behind a use."""
    ending: int
    """Environments that are being removed."""
    waiting: int
    """Borrowers that wait for one."""
    started: int
    """Environments that have been started since the pool was made."""
    failed: int
    """Starts that have failed since."""


@dataclass(eq=False, slots=True)
class Member:
    """An environment of a pool."""

    env: BaseEnvironment | None = None
    """None until it is made."""
    uses: int = 0
    """How many borrowers have had it."""
    idle_since: float = field(default_factory=time.monotonic)
    """When it was last ready for a borrower, on the monotonic clock."""


class Keeper:
    """Keeps a pool stocked, and lends what there is.

    Args:
        recipe: Makes environments.
        place: Where they are started.
        limits: How fast.
        least: How many are to be ready for whoever comes next.
        most: How many there may be at once.
        idle: Seconds after which one goes that is more than `least`.
        uses: How many borrowers one environment may have.
    """

    def __init__(
        self, recipe: Recipe, place: StartPlace, limits: StartLimits, least: int, most: int, idle: float, uses: int
    ) -> None:
        self._recipe = recipe
        self._place = place
        self._limits = limits
        self._least = least
        self._most = most
        self._idle_limit = idle
        self._uses = uses
        self._idle: list[Member] = []
        self._lent: set[Member] = set()
        self._starting: set[Member] = set()
        self._ending: set[Member] = set()
        self._waiting: deque[Borrower] = deque()
        self._refusal: BaseException | None = None
        self._started = self._failed = 0
        self._failed_in_a_row = 0
        self._stock_again = 0.0
        """When what is to be ready may be started again behind a start that has failed, on the monotonic clock."""
        self._looked = time.monotonic()
        self._changed = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def _is_closed(self) -> bool:
        return self._closing is not None

    @property
    def _name(self) -> str:
        return f"backend {self._recipe.settings.env!r}"

    async def stats(self) -> PoolStats:
        """Return the numbers of this moment."""
        return PoolStats(
            idle=len(self._idle),
            lent=len(self._lent),
            starting=len(self._starting),
            ending=len(self._ending),
            waiting=len(self._waiting),
            started=self._started,
            failed=self._failed,
        )

    # Keeping it stocked.

    def begin(self) -> None:
        """Begin to keep it stocked, unless that was done."""
        if self._keeping is None and not self._is_closed:
            self._place.watch(self._changed.set)
            self._keeping = _apart(self._keep())

    async def _keep(self) -> None:
        while not self._is_closed:
            self._changed.clear()
            try:
                wait = await self._step()
            except Exception as error:  # nothing a backend raises may end the pool
                log.warning("%s: the pool could not be kept: %r", self._name, error)
                wait = TRY_AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait == _NEVER else wait):
                    await self._changed.wait()

    async def _step(self) -> float:
        """Do what there is to do, and return after how many seconds there may be more."""
        waits = [self._remove_old(), await self._remove_lost()]
        while (wait := self._wants_more()) == 0:
            if wait := self._place.begin(self._limits):
                break
            member = Member()
            self._starting.add(member)
            self._job(self._start(member))
        return min(*waits, wait)

    def _wants_more(self) -> float:
        """Return after how many seconds another environment is to be started: 0 is now, and infinity not as it is."""
        supply = len(self._idle) + len(self._starting)
        total = supply + len(self._lent) + len(self._ending)
        if self._is_closed or total >= self._most or supply >= len(self._waiting) + self._least:
            return _NEVER
        if supply < len(self._waiting):
            return 0.0
        return max(0.0, self._stock_again - time.monotonic())

    def _remove_old(self) -> float:
        """Remove those that nobody has needed for too long, and return seconds until there may be another."""
        spare = max(0, len(self._idle) - self._least)
        now = time.monotonic()
        old = [each for each in self._idle[:spare] if now - each.idle_since >= self._idle_limit]
        for member in old:
            self._remove(member)
        return _NEVER if len(old) == spare else max(0.0, self._idle[0].idle_since + self._idle_limit - now)

    async def _remove_lost(self) -> float:
        """Remove those that have gone while nobody had them, and return seconds until the next look."""
        if not self._idle:
            return _NEVER
        interval = self._limits.look_interval
        if time.monotonic() - self._looked >= interval:
            self._looked = time.monotonic()
            for member in self._idle.copy():
                if not await in_worker(_is_ready, member) and member in self._idle:
                    log.info("%s: an environment was lost before it was lent", self._name)
                    self._remove(member)
        return max(0.0, self._looked + interval - time.monotonic())

    # Starts.

    async def _start(self, member: Member) -> None:
        """Make one and start it, which the place has let begin."""
        try:
            member.env = await in_worker(self._recipe.make)
            if self._is_closed:
                raise _closed()
            await _done(member.env.prepare)
        except BaseException as error:  # whatever a backend that was installed apart, or a user's callback, raises
            self._start_failed(error)
            await self._end(member)
        else:
            self._place.end(refused=False)
            self._started += 1
            self._failed_in_a_row, self._refusal = 0, None
            self._ready(member)

    def _ready(self, member: Member) -> None:
        if member in self._starting:
            self._starting.discard(member)
            self._have_idle(member)

    def _start_failed(self, error: BaseException) -> None:
        came = verdict(error)
        refusals = self._place.end({Verdict.BUSY: True, Verdict.WRONG: False}.get(came))
        if self._is_closed:
            return
        log.info("%s: a start of the pool has failed: %s", self._name, error)
        self._failed += 1
        self._failed_in_a_row += 1
        self._stock_again = time.monotonic() + delay(self._failed_in_a_row)
        told = {Verdict.WRONG: len(self._waiting), Verdict.BUSY: 0, Verdict.CHANCE: 1}[came]
        if came is Verdict.BUSY:
            self._refusal = error
            for borrower in self._waiting:
                borrower.refusal = error
            if refusals >= REFUSALS:
                told = len(self._waiting)
        for _ in range(min(told, len(self._waiting))):
            self._waiting.popleft().fail(error)

    # Lending.

    async def lend(self, borrower: Borrower) -> BaseEnvironment:
        """Hand a borrower the environment that was ready last, or have it wait behind those who wait.

        Raises:
            TerminalError: The pool was closed.
            EnvironmentStartError: See `Pool.environment`.
            CallCancelledError: See `Pool.environment`.
        """
        self._check_open()
        self.begin()
        borrower.refusal = self._refusal
        self._waiting.append(borrower)
        self._serve()
        self._changed.set()
        while True:
            member = await borrower.wait()
            if await in_worker(_is_ready, member):
                assert member.env
                return member.env
            self._remove(member)
            self._check_open()
            borrower.member = None
            self._waiting.appendleft(borrower)  # before all others
            self._serve()

    def _check_open(self) -> None:
        if self._is_closed:
            raise _closed()

    def _have_idle(self, member: Member) -> None:
        member.idle_since = time.monotonic()
        self._idle.append(member)
        self._serve()
        self._changed.set()

    def _serve(self) -> None:
        while self._waiting and self._idle:
            member = self._idle.pop()
            member.uses += 1
            self._lent.add(member)
            self._waiting.popleft().hand(member)

    def take_back(self, borrower: Borrower) -> None:
        """Take back what was lent: have it made anew for the next one, or removed. May be called in any thread."""
        current().soon(self._take_back, borrower)

    def _take_back(self, borrower: Borrower) -> None:
        if borrower in self._waiting:
            self._waiting.remove(borrower)
        member, borrower.member = borrower.member, None
        if member not in self._lent or member is None:
            self._changed.set()
        elif not borrower.has_begun:
            self._lent.discard(member)
            member.uses -= 1
            self._have_idle(member)
        elif member.uses < self._uses:
            self._lent.discard(member)
            self._starting.add(member)
            self._job(self._renew(member))
        else:
            self._remove(member)

    async def _renew(self, member: Member) -> None:
        assert member.env
        try:
            await _done(member.env.renew)
            await _done(member.env.prepare)
        except BaseException as error:
            log.info("%s: an environment is not lent again: %s", self._name, error)
            await self._end(member)
        else:
            self._ready(member)

    # Ends.

    def _remove(self, member: Member) -> None:
        """Remove one, wherever it is, without keeping anybody waiting."""
        self._have_ending(member)
        self._job(self._end(member))

    def _have_ending(self, member: Member) -> None:
        if member in self._idle:
            self._idle.remove(member)
        self._lent.discard(member)
        self._starting.discard(member)
        self._ending.add(member)

    async def _end(self, member: Member) -> None:
        self._have_ending(member)
        try:
            if member.env:
                await _done(member.env.cleanup)
        except BaseException as error:  # a backend installed apart may raise anything
            what = str(error) if isinstance(error, TerminalError) else type(error).__name__
            log.warning("%s: an environment could not be cleaned up: %s", self._name, what)
        self._ending.discard(member)
        self._changed.set()

    async def close(self) -> None:
        """End everything. All that call this wait for one end, which goes on whatever becomes of them."""
        if self._closing is None:
            self._closing = spawn(self._close())
        await shielded(self._closing)

    async def _close(self) -> None:
        self._place.unwatch(self._changed.set)
        self._changed.set()
        error = _closed()
        while self._waiting:
            self._waiting.popleft().fail(error)
        room = asyncio.Semaphore(ENDED_AT_ONCE)

        async def end(member: Member) -> None:
            async with room:
                await self._end(member)

        await asyncio.gather(*map(end, {*self._idle, *self._lent, *self._starting}))
        while self._jobs:
            await asyncio.wait(self._jobs)
        if self._keeping:
            await shielded(self._keeping)

    def _job(self, work: Coroutine[Any, Any, None]) -> None:
        job = _apart(work)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)


def _apart(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run a coroutine that is no borrower's, and outside of the scope and the limits of the one that has caused it.

    The end of the program does not wait for it: `close` is called there.
    """
    return current().loop.create_task(work, context=Context())


def _is_ready(member: Member) -> bool:
    return member.env is not None and member.env.is_ready


async def _done(method: Callable[[], object]) -> None:
    """Do what a method of an environment waits for, on the loop where that is where it is done."""
    work = work_of(method)
    await (work(None) if work else in_worker(method))


def _closed() -> TerminalError:
    return TerminalError("the pool was closed; make a new one")
