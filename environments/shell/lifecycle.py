"""The life of an environment: new, started, closing, closed, all of it under one lock."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from environments.errors import CLEANED_UP, EnvironmentLostError, EnvironmentStartError, TerminalError
from environments.log import logger
from environments.progress import Reporter
from environments.shell.losses import Losses
from environments.starting import Start, reason_to_leave, stopped_error

if TYPE_CHECKING:
    from environments.shell.startup import Startup

CLOSE_GRACE = 5.0
"""Seconds that `cleanup` waits for a start that it has stopped. What takes longer removes by itself what it made."""

log = logger(__name__)


class Stage(Enum):
    """How far an environment has come."""

    NEW = "new"
    """Its target is not up: it was not needed yet, or was lost."""
    STARTED = "started"
    CLOSING = "closing"
    CLOSED = "closed"


class Cleanable(Protocol):
    """An environment, as far as its end goes."""

    life: Lifecycle

    def cleanup(self) -> None:
        """End everything, see `BaseEnvironment`."""


class Lifecycle:
    """Starts the target on first use and after a loss, and lets it be closed once.

    It belongs to the process that made it. In a forked child nothing of it may be used, nor ended.

    Args:
        start: Brings the target up.
        backend: The backend's name, for errors.
        stop: Takes it down, see `PersistentShellEnvironment.stop_target`.
        apart: Whether a start has a thread of its own, so that it can be stopped.
        stays: Whether a loss is only that of a link to the same target as before.
        reporter: Is told what a start is doing.
    """

    def __init__(
        self,
        start: Callable[[], object],
        backend: str,
        stop: Callable[[], object] = lambda: None,
        *,
        apart: bool = False,
        stays: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self._start = start
        self._backend = backend
        self._stop = stop
        self._apart = apart
        self._reporter = reporter
        self._startup: Startup | None = None
        self._ending: list[Startup] = []
        """Starts that were stopped, and may have something under way that they then undo."""
        self._given_up = False
        """Whether a start goes on while everything is being ended."""
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closing_ended = threading.Condition(self._lock)
        self._closing_thread: int | None = None
        self.stage = Stage.NEW
        self.ever_started = False
        """Whether there may be something to stop."""
        self.generation = 0
        """How many targets there have been: what was opened in an earlier one is of no use any more."""
        self.stays = stays
        """Whether the target is the same behind a loss."""
        self._losses = Losses(backend, target_stays=stays)

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that made the environment."""
        return self._pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether nobody has called for its end."""
        return self.stage in (Stage.NEW, Stage.STARTED)

    def lets_in(self, for_control: bool) -> bool:
        """Whether what was opened may stay: what is `for_control` while everything is being ended, too."""
        return self.is_open or (for_control and self.stage is Stage.CLOSING)

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        if not self.is_ours:
            raise TerminalError(
                f"this environment (backend {self._backend!r}) belongs to process {self._pid}, of which this one is a "
                "fork; create one here"
            )

    def check(self) -> None:
        """Let pass what may use the environment.

        Raises:
            TerminalError: It was cleaned up, or belongs to another process.
        """
        self.check_process()
        if not self.is_open:
            raise TerminalError(CLEANED_UP)

    def check_patience(self, interrupted: Callable[[], bool]) -> None:
        """Raise StartStoppedError if the current thread is to wait no longer for what comes behind a start.

        Args:
            interrupted: Whether it is not to for a reason of its own.
        """
        reason = ("it was interrupted", False) if interrupted() else reason_to_leave()
        if reason:
            raise stopped_error(self._backend, *reason)

    def ensure_started(self, for_control: bool = False) -> int:
        """Bring the target up unless it is, and return its generation.

        Args:
            for_control: Whether it is for a command of our own, which is also let in while everything is being ended.

        Raises:
            TerminalError: As `check` does, or because it could not be started.
            StartStoppedError: The start was stopped, or the current thread's limit or scope ended the wait for it.
            EnvironmentLostError: It was lost, and that was postponed.
        """
        if for_control and self.stage is Stage.CLOSING and self.is_ours:
            return self.generation
        self.check()
        while self.stage is not Stage.STARTED:
            try:
                self._start_or_wait()
            except BaseException:  # which control-C may raise before anybody waits
                if startup := self._startup:
                    startup.stop_if_unwanted()
                raise
            self.check()
        return self.generation

    def _start_or_wait(self) -> None:
        with self._lock:
            self.check()
            startup = self._startup
            late = startup is not None and startup.start.stopped
            if self.stage is Stage.NEW and startup is None:
                startup = self._begin_start()
        if startup and startup.is_mine:
            raise TerminalError("the environment was used from on_progress while it starts; use it when it is up")
        if startup:
            startup.wait(late)

    def _begin_start(self) -> Startup | None:
        """Bring the target up, or have it brought up by a thread, which is returned. Called with the lock."""
        self._losses.raise_postponed()
        self.ever_started = True  # from here on there may be something to stop, also if this fails
        self.generation += 1
        if not self._apart:
            self._start()
            self.stage = Stage.STARTED
            return None
        from environments.shell.startup import Startup  # where a start has a thread of its own

        startup = Startup(Start(self._backend, self._reporter), self._start, self._start_ended)
        try:
            self._startup = startup
            startup.begin()
        except BaseException as error:
            if not startup.has_begun:
                self._startup = None
            if not isinstance(error, RuntimeError):
                raise
            raise EnvironmentStartError(f"backend {self._backend!r}: no thread can be started: {error}") from error
        return startup

    def _start_ended(self, error: BaseException | None) -> None:
        """Note in the thread of a start that it has ended."""
        with self._lock:
            startup, self._startup = self._startup, None
            if startup and startup.start.detached:
                self._ending = [each for each in self._ending if not each.join(0)] + [startup]
            if error is None and self.stage is Stage.NEW:
                self.stage = Stage.STARTED
            given_up = self._given_up
        if given_up:  # what it has made meanwhile was not there when the target was taken down
            self._stop()

    def stop_start(self, why: str) -> None:
        """Stop the start that is under way, if one is, for all who wait for it."""
        if startup := self._startup:
            startup.stop(why)

    def end_starts(self) -> None:
        """Stop the start that is under way, and wait for all that stopped ones may still do, but not for ever."""
        with self._lock:
            under_way = self._startup
            starts = [each for each in (*self._ending, under_way) if each and not each.is_mine]
        if under_way:
            under_way.stop("the environment was cleaned up")
        deadline = time.monotonic() + CLOSE_GRACE
        ended = [each.join(max(0.0, deadline - time.monotonic())) for each in starts]
        if not all(ended):
            with self._lock:
                self._given_up = self._startup is not None
            log.warning(
                "backend %r: a start that was stopped waits for an answer; what it has made is removed when that comes",
                self._backend,
            )

    def lost(self, why: str, generation: int | None = None) -> EnvironmentLostError:
        """Note that the target is gone, so that the next command starts it anew, and return what to raise.

        Args:
            why: What became of it.
            generation: Which target is meant; one that has been replaced is not lost again.
        """
        with self._lock:
            error = self._losses.error(why)
            if generation not in (None, self.generation):
                return error
            if self.stage is Stage.STARTED:
                log.debug("backend %r: the target is lost: %s", self._backend, why)
                self.stage = Stage.NEW
                self._losses.begin()
            return self._losses.noted(error)

    def postpone(self, error: TerminalError) -> None:
        """Have the next command raise what was raised where nobody can be told, if it is a loss that nobody else saw.

        Else that command would begin anew in another target, and its session's files and processes be gone unsaid.
        Where the target stays, the session goes on behind a dropped link.
        """
        with self._lock:
            self._losses.postpone(error)

    def told(self, error: Exception) -> None:
        """Note that an error which was postponed is raised after all, to somebody who had asked."""
        with self._lock:
            self._losses.told(error)

    def begin_closing(self) -> bool:
        """Let nobody in any more. Returns whether the caller is the one to close; waits for whoever is at it.

        An earlier attempt that was cut short, by control-C, is taken up. `end_closing` is to follow.
        """
        if not self.is_ours:
            return False
        with self._lock:
            mine = threading.get_ident()
            self._closing_ended.wait_for(lambda: self._closing_thread in (None, mine))
            if self.stage is Stage.CLOSED:
                return False
            self.stage = Stage.CLOSING
            self._closing_thread = mine
        return True

    def end_closing(self, *, done: bool) -> None:
        """Let others go on that wait for the end: it is `done`, or somebody else has to see to it."""
        with self._lock:
            if done:
                log.debug("backend %r: cleaned up", self._backend)
                self.stage = Stage.CLOSED
                _open_environments.discard(self._token)
            self._closing_thread = None
            self._closing_ended.notify_all()

    # What nobody cleans up.

    def watch(self, env: Cleanable) -> None:
        """See to it that `env`, whose life this is, is cleaned up at the end of the process at the latest."""
        self._token = weakref.ref(env)
        _open_environments.add(self._token)

    def abandoned(self, env: Cleanable) -> None:
        """Clean up an environment that nobody holds any more, with a warning."""
        if not self.is_ours or self.stage is Stage.CLOSED:
            return
        if self.stage is Stage.STARTED:
            warnings.warn(
                f"an environment (backend {self._backend!r}) was not cleaned up; use it in a `with` block, or call "
                "cleanup()",
                ResourceWarning,
                stacklevel=2,
            )
        with contextlib.suppress(TerminalError):
            env.cleanup()


_open_environments: set[weakref.ref[Cleanable]] = set()


@atexit.register
def _clean_up_all() -> None:
    for reference in list(_open_environments):
        env = reference()
        if env is not None:
            env.life.abandoned(env)
