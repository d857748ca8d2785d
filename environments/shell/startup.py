"""One start on a thread of its own, and those who wait for it.

The thread goes on whatever is raised in theirs. It is stopped when the last of them has left, or for all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextvars import copy_context

from environments.cancellation import StartLimit, current_start_limit, ended_in_scope
from environments.starting import Start, reason_to_leave, stopped_error

STOP_GRACE = 1.0
"""Seconds a stopped start has to remove what it made, before those who waited for it are told."""
ABORT_AGAIN = 0.1
"""Seconds until what a stopped start waits for is broken off again: it may have been between two waits."""
INTERRUPT_POLL = 0.05
"""Seconds between two looks at what can only be asked whether to stop."""

LOOK_AGAIN = 0.5
"""Seconds that the main thread waits at a time: a control-C just before a wait begins is noticed only behind it."""


class Startup:
    """Runs one start.

    Args:
        start: What the backend is stopped by.
        bring_up: Brings the target up.
        on_end: Told in the start's thread that it has ended, with what was raised, before those who wait are.
    """

    def __init__(
        self, start: Start, bring_up: Callable[[], object], on_end: Callable[[BaseException | None], object]
    ) -> None:
        self.start = start
        self._bring_up = bring_up
        self._on_end = on_end
        self._changed = threading.Condition()
        self._waiting: set[object] = set()
        self._error: BaseException | None = None
        self._ended = False
        self._stopped_for_all = False
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="hermes-start", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        error: BaseException | None = None
        try:
            with self.start.active():
                self.start.tell("starting")
                self._bring_up()
                self.start.tell(f"started in {time.monotonic() - began:.1f} s", complete=True)
        except BaseException as raised:
            error = raised
        self._on_end(error)
        with self._changed:
            self._error, self._ended = error, True
            self._changed.notify_all()

    def stop(self, why: str) -> None:
        """Stop it for all who wait for it; it need not have ended when this returns.

        Args:
            why: What stops it.
        """
        with self._changed:
            self.start.mark(why)
            self._stopped_for_all = True
            self._changed.notify_all()
        self.start.break_off()

    @property
    def has_begun(self) -> bool:
        """Whether there is a thread, so that the start will end."""
        return self._thread.ident is not None

    @property
    def is_mine(self) -> bool:
        """Whether this is the start's own thread, such as in a callback that is told of progress."""
        return threading.current_thread() is self._thread

    def join(self, seconds: float) -> bool:
        """Wait for the end of a start that was stopped, and of what goes on alone. Returns whether all has ended."""
        deadline = time.monotonic() + seconds
        self._abort(seconds)
        for thread in (self._thread, *self.start.detached):
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in (self._thread, *self.start.detached))

    def _abort(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while not self._ended and time.monotonic() < deadline:
                self._changed.wait(ABORT_AGAIN)
                self.start.break_off()

    def wait(self, late: bool) -> None:
        """Wait until it is over.

        Args:
            late: Whether it was stopped already when the caller came, who then only waits until it has removed what it
                made, to try again.

        Raises:
            StartStoppedError: It was stopped, or the current thread may wait no longer.
            BaseException: What the start has raised.
        """
        me, limit = object(), current_start_limit()
        try:
            with ended_in_scope(self._notify), self._changed:
                self._waiting.add(me)
                while not self._ended and (late or not self._stopped_for_all):
                    if reason := reason_to_leave():
                        raise stopped_error(self.start.backend, *reason)
                    self._changed.wait(_patience(limit))
        finally:
            with self._changed:
                self._waiting.discard(me)
            self.stop_if_unwanted()
        if self._stopped_for_all and not late:
            self._abort(STOP_GRACE)
            raise self.start.error()
        if self._error and not self.start.stopped:
            raise self._error

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def stop_if_unwanted(self) -> None:
        """Stop it if nobody waits for it any more."""
        if self.is_mine:
            return
        reason = reason_to_leave() or ("nobody waits for it any more", False)
        with self._changed:
            if self._waiting or self._ended or self.start.stopped:
                return
            self.start.mark(*reason)
        self.start.break_off()
        self._abort(STOP_GRACE)


def _patience(limit: StartLimit | None) -> float:
    """Return after how many seconds to look again."""
    if limit is None:
        return LOOK_AGAIN
    return min(limit.left, INTERRUPT_POLL if limit.can_be_interrupted else LOOK_AGAIN)
