"""What a pool has at one moment: its environments, by what becomes of them, and those who wait for one."""

from __future__ import annotations

import threading
import time
from collections import deque

from environments.errors import TerminalError
from environments.pool.borrower import Borrower
from environments.pool.member import Member
from environments.pool.refusal import delay
from environments.pool.stats import PoolStats


class Stock:
    """Knows where each environment of a pool is. Nothing is started, asked or ended here; all of it is quick.

    Args:
        least: How many are to be ready for whoever comes next.
        most: How many there may be at once.
        idle: Seconds after which one goes that is more than `least`.
    """

    def __init__(self, least: int, most: int, idle: float) -> None:
        self.changed = threading.Condition()
        """Its lock guards everything here; notified when there may be something to do."""
        self.closed = False
        self._least = least
        self._most = most
        self._idle_limit = idle
        self._idle: list[Member] = []
        self._lent: set[Member] = set()
        self._starting: set[Member] = set()
        self._ending: set[Member] = set()
        self._waiting: deque[Borrower] = deque()
        self._refusal: BaseException | None = None
        self._started = self._failed = 0
        self._failed_in_a_row = 0
        self._stock_again = 0.0

    def stats(self) -> PoolStats:
        """Return the numbers of this moment."""
        with self.changed:
            return PoolStats(
                idle=len(self._idle),
                lent=len(self._lent),
                starting=len(self._starting),
                ending=len(self._ending),
                waiting=len(self._waiting),
                started=self._started,
                failed=self._failed,
            )

    # Who borrows.

    def ask(self, borrower: Borrower) -> None:
        """Hand a borrower the environment that was ready last, or have it wait behind those who wait.

        Raises:
            TerminalError: The pool was closed.
        """
        with self.changed:
            if self.closed:
                raise _closed()
            borrower.refusal = self._refusal
            if self._idle and not self._waiting:
                self._lend(self._idle.pop(), borrower)
            else:
                self._waiting.append(borrower)
            self.changed.notify_all()

    def ask_again(self, borrower: Borrower) -> None:
        """Have a borrower go on to wait, before all others: what it was handed is of no use."""
        with self.changed:
            if self.closed:
                raise _closed()
            borrower.member = None
            self._waiting.appendleft(borrower)
            self._serve()
            self.changed.notify_all()

    def leave(self, borrower: Borrower) -> Member | None:
        """Let a borrower wait no longer, and return what it has used. What it was handed and has not is another's."""
        with self.changed:
            if borrower in self._waiting:
                self._waiting.remove(borrower)
            member = borrower.member
            if member is None or borrower.has_begun or member not in self._lent:
                return member
            self._lent.discard(member)
            member.uses -= 1
            self._have_idle(member)
            self.changed.notify_all()
            return None

    def _lend(self, member: Member, borrower: Borrower) -> None:
        member.uses += 1
        self._lent.add(member)
        borrower.hand(member)

    def _have_idle(self, member: Member) -> None:
        member.idle_since = time.monotonic()
        self._idle.append(member)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._idle:
            self._lend(self._idle.pop(), self._waiting.popleft())

    # What becomes of an environment.

    @property
    def _total(self) -> int:
        return len(self._idle) + len(self._lent) + len(self._starting) + len(self._ending)

    @property
    def wants_more(self) -> float:
        """After how many seconds another environment is to be started: 0 is now, and infinity not as things are."""
        with self.changed:
            supply = len(self._idle) + len(self._starting)
            if self.closed or self._total >= self._most or supply >= len(self._waiting) + self._least:
                return float("inf")
            if supply < len(self._waiting):
                return 0.0
            return max(0.0, self._stock_again - time.monotonic())

    def starting(self, member: Member) -> bool:
        """Note that one is started. Returns False if the pool was closed."""
        with self.changed:
            if not self.closed:
                self._starting.add(member)
            return not self.closed

    def ready(self, member: Member) -> None:
        """Note that one is ready for the next borrower."""
        with self.changed:
            if member in self._starting:
                self._starting.discard(member)
                if not member.uses:
                    self._started += 1
                self._failed_in_a_row, self._refusal = 0, None
                self._have_idle(member)
            self.changed.notify_all()

    def failed(self, error: BaseException, to: int | None, *, refused: bool) -> None:
        """Note that a start has failed.

        Args:
            error: What it has raised.
            to: How many borrowers are told, of those who have waited longest; None is all.
            refused: Whether the engine had too much to do.
        """
        with self.changed:
            self._failed += 1
            self._failed_in_a_row += 1
            self._stock_again = time.monotonic() + delay(self._failed_in_a_row)
            if refused:
                self._refusal = error
                for borrower in self._waiting:
                    borrower.refusal = error
            for _ in range(len(self._waiting) if to is None else min(to, len(self._waiting))):
                self._waiting.popleft().fail(error)
            self.changed.notify_all()

    def renewing(self, member: Member) -> bool:
        """Note that one that was lent is made anew for the next borrower. Returns False if it is another's to end."""
        with self.changed:
            if self.closed or member not in self._lent:
                return False
            self._lent.discard(member)
            self._starting.add(member)
            return True

    def ending(self, member: Member) -> None:
        """Note that one is about to be removed, wherever it was."""
        with self.changed:
            if member in self._idle:
                self._idle.remove(member)
            self._lent.discard(member)
            self._starting.discard(member)
            self._ending.add(member)
            self.changed.notify_all()

    def ended(self, member: Member) -> None:
        """Note that one is gone."""
        with self.changed:
            self._ending.discard(member)
            self.changed.notify_all()

    def idle_members(self) -> list[Member]:
        """Return those that are ready, with the one that was ready last at the end."""
        with self.changed:
            return list(self._idle)

    def take_idle(self, member: Member) -> bool:
        """Take one out of those that are ready, to remove it. Returns False if it was lent meanwhile."""
        with self.changed:
            if member not in self._idle:
                return False
            self._idle.remove(member)
            self._ending.add(member)
            return True

    def expiring(self) -> tuple[list[Member], float]:
        """Take out those that nobody has needed for too long; return them, and seconds until there may be another."""
        with self.changed:
            spare = max(0, len(self._idle) - self._least)
            now = time.monotonic()
            old = [each for each in self._idle[:spare] if now - each.idle_since >= self._idle_limit]
            for member in old:
                self._idle.remove(member)
                self._ending.add(member)
            if len(old) == spare:
                return old, float("inf")
            return old, max(0.0, self._idle[0].idle_since + self._idle_limit - now)

    def close(self) -> list[Member]:
        """Lend nothing any more, and return all environments there are. Those who wait are told."""
        with self.changed:
            self.closed = True
            error = _closed()
            while self._waiting:
                self._waiting.popleft().fail(error)
            self._ending |= {*self._idle, *self._lent, *self._starting}
            self._idle.clear()
            self._lent.clear()
            self._starting.clear()
            self.changed.notify_all()
            return list(self._ending)


def _closed() -> TerminalError:
    return TerminalError("the pool was closed; make a new one")
