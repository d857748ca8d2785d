"""Keeps a pool stocked: starts environments ahead and for those who wait, removes what is old, lost or used up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from environments.pool.borrower import Borrower
from environments.pool.member import Member, Recipe
from environments.pool.refusal import Verdict, verdict
from environments.pool.start_limits import StartLimits, StartPlace
from environments.pool.stock import Stock

TRY_AGAIN = 2.0
"""Seconds until the next look behind one that a backend's fault has cut short."""
REFUSALS = 6
"""How often in a row an engine may refuse before those who wait are told; with the pauses, half a minute."""
ENDED_AT_ONCE = 16
"""How many environments are removed at the same time when the pool is closed."""

log = logger(__name__)


class Keeper:
    """Does what takes time, in threads of its own: one for as long as there is a pool, others for as long as they work.

    Args:
        stock: What there is.
        recipe: Makes environments.
        place: Where they are started.
        limits: How fast.
        uses: How many borrowers one environment may have.
    """

    def __init__(self, stock: Stock, recipe: Recipe, place: StartPlace, limits: StartLimits, uses: int) -> None:
        self._stock = stock
        self._recipe = recipe
        self._place = place
        self._limits = limits
        self._uses = uses
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._jobs: set[threading.Thread] = set()
        self._woken = False
        self._looked = time.monotonic()

    def begin(self) -> None:
        """Begin, unless that was done. Without an environment to keep, there is no thread.

        Raises:
            EnvironmentStartError: There is none to be had.
        """
        with self._lock:
            if self._thread is not None or self._stock.closed:
                return
            thread = threading.Thread(target=self._run, name="hermes-pool", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                raise self._no_thread(error) from error
            self._thread = thread
            self._place.watch(self.wake)

    def wake(self) -> None:
        """Have it look what there is to do."""
        with self._stock.changed:
            self._woken = True
            self._stock.changed.notify_all()

    def _run(self) -> None:
        while not self._stock.closed:
            with self._stock.changed:
                self._woken = False
            try:
                wait = self._step()
            except Exception as error:  # nothing a backend raises may end the pool
                log.warning("backend %r: the pool could not be kept: %r", self._recipe.settings.env, error)
                wait = TRY_AGAIN
            with self._stock.changed:
                if not (self._woken or self._stock.closed):
                    self._stock.changed.wait(None if wait == float("inf") else wait)

    def _step(self) -> float:
        """Do what there is to do, and return after how many seconds there may be more."""
        waits = [self._remove_old(), self._remove_lost()]
        while (wait := self._stock.wants_more) == 0:
            if wait := self._place.begin(self._limits):
                break
            self._begin_start()
        return min(*waits, wait)

    def _remove_old(self) -> float:
        old, wait = self._stock.expiring()
        for member in old:
            self._apart(partial(self._end, member))
        return wait

    def _remove_lost(self) -> float:
        members = self._stock.idle_members()
        if not members:
            return float("inf")
        now = time.monotonic()
        interval = self._recipe.backend.look_interval
        if now - self._looked >= interval:
            self._looked = now
            for member in members:
                if not member.env.is_ready and self._stock.take_idle(member):
                    log.info("backend %r: an environment was lost before it was lent", self._recipe.settings.env)
                    self._apart(partial(self._end, member))
        return max(0.0, self._looked + interval - now)

    # Starts.

    def _begin_start(self) -> None:
        """Begin a start, which the place has let begin."""
        try:
            member = self._recipe.make()
            if not self._stock.starting(member):
                self._place.end(None)
                return
        except Exception as error:  # of a backend that was installed apart, too
            self._start_failed(error)
            return
        try:
            self._job(partial(self._start, member))
        except RuntimeError as error:  # there is no room for another thread
            self._stock.ending(member)
            self._stock.ended(member)
            self._start_failed(self._no_thread(error))

    def _start(self, member: Member) -> None:
        try:
            member.env.prepare()
        except BaseException as error:
            self._stock.ending(member)
            self._start_failed(error)
            self._end(member)
        else:
            self._place.end(refused=False)
            self._stock.ready(member)

    def _start_failed(self, error: BaseException) -> None:
        came = verdict(error)
        refusals = self._place.end({Verdict.BUSY: True, Verdict.WRONG: False}.get(came))
        if self._stock.closed:
            return
        log.info("backend %r: a start of the pool has failed: %s", self._recipe.settings.env, error)
        refused = came is Verdict.BUSY
        patient = refused and refusals < REFUSALS
        told = {Verdict.WRONG: None, Verdict.BUSY: 0 if patient else None, Verdict.CHANCE: 1}[came]
        self._stock.failed(error, told, refused=refused)

    def _no_thread(self, error: RuntimeError) -> EnvironmentStartError:
        return EnvironmentStartError(f"backend {self._recipe.settings.env!r}: no thread can be started: {error}")

    # Ends.

    def take_back(self, borrower: Borrower) -> None:
        """Take back what was lent: have it made anew for the next one, or removed, without keeping anybody waiting."""
        member = self._stock.leave(borrower)
        if member is None:
            self.wake()
        elif member.uses < self._uses and self._stock.renewing(member):
            self._apart(partial(self._renew, member))
        elif not self._stock.closed:
            self._stock.ending(member)
            self._apart(partial(self._end, member))

    def _renew(self, member: Member) -> None:
        try:
            member.env.renew()
            member.env.prepare()
        except Exception as error:
            log.info("backend %r: an environment is not lent again: %s", self._recipe.settings.env, error)
            self._stock.ending(member)
            self._end(member)
        else:
            self._stock.ready(member)

    def _end(self, member: Member) -> None:
        """Remove one."""
        try:
            member.env.cleanup()
        except Exception as error:  # a backend installed apart may raise anything
            what = str(error) if isinstance(error, TerminalError) else type(error).__name__
            log.warning("backend %r: an environment could not be cleaned up: %s", self._recipe.settings.env, what)
        self._stock.ended(member)  # not behind a control-C, so that the next `close` takes it up

    def replace(self, member: Member, borrower: Borrower) -> None:
        """Remove one that a borrower was handed and that is not there any more, and have it wait for another.

        Raises:
            TerminalError: The pool was closed.
        """
        self._stock.ending(member)
        self._apart(partial(self._end, member))
        self._stock.ask_again(borrower)
        self.wake()

    def close(self) -> None:
        """End everything, and return when that is done. Called again, it takes up what was cut short."""
        left = self._stock.close()
        self._place.unwatch(self.wake)

        def work() -> None:
            while left:
                try:
                    member = left.pop()
                except IndexError:
                    return
                self._end(member)

        for _ in range(min(len(left), ENDED_AT_ONCE) - 1):
            try:
                self._job(work)
            except RuntimeError:  # at the end of the interpreter there are no new threads
                break
        work()
        with self._lock:
            threads = [*self._jobs, *filter(None, [self._thread])]
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    # Threads.

    def _apart(self, work: Callable[[], None]) -> None:
        """Do something in a thread of its own, or here where there is none to be had."""
        try:
            self._job(work)
        except RuntimeError:
            work()

    def _job(self, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            finally:
                with self._lock:
                    self._jobs.discard(thread)

        thread = threading.Thread(target=run, name="hermes-pool-job", daemon=True)
        with self._lock:  # so that nobody waits for one that has not begun
            thread.start()
            self._jobs.add(thread)
