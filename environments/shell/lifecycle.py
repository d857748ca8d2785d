"""The life of an environment: new, started, closing, closed, all of it under one lock."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from environments.errors import EnvironmentLostError, TerminalError


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
    """

    def __init__(self, start: Callable[[], object], backend: str) -> None:
        self._start = start
        self._backend = backend
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closing_ended = threading.Condition(self._lock)
        self._closing_thread: int | None = None
        self.stage = Stage.NEW
        self.ever_started = False
        """Whether there may be something to stop."""
        self.generation = 0
        """How many targets there have been: what was opened in an earlier one is of no use any more."""
        self._of_loss: weakref.WeakSet[EnvironmentLostError] = weakref.WeakSet()
        """What was raised of the last loss."""
        self._told = 0
        """How many of these reach whoever uses the environment."""
        self._postponed = ""
        """What the others say, which were raised where nobody can be told."""

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that made the environment."""
        return self._pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether nobody has called for its end."""
        return self.stage in (Stage.NEW, Stage.STARTED)

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
            raise TerminalError("the environment was cleaned up; create a new one")

    def ensure_started(self, for_control: bool = False) -> int:
        """Bring the target up unless it is, and return its generation.

        Args:
            for_control: Whether it is for a command of our own, which is also let in while everything is being ended.

        Raises:
            TerminalError: As `check` does, or because it could not be started.
            EnvironmentLostError: It was lost, and that was postponed.
        """
        if for_control and self.stage is Stage.CLOSING and self.is_ours:
            return self.generation
        self.check()
        if self.stage is not Stage.STARTED:
            with self._lock:
                self.check()
                if self.stage is Stage.NEW:
                    self._raise_postponed()
                    self.ever_started = True  # from here on there may be something to stop, also if this fails
                    self.generation += 1
                    self._start()
                    self.stage = Stage.STARTED
        return self.generation

    def lost(self, why: str, generation: int | None = None) -> EnvironmentLostError:
        """Note that the target is gone, so that the next command starts it anew, and return what to raise.

        Args:
            why: What became of it.
            generation: Which target is meant; one that has been replaced is not lost again.
        """
        with self._lock:
            if generation not in (None, self.generation):
                return self._loss(why)
            if self.stage is Stage.STARTED:
                self.stage = Stage.NEW
                self._of_loss, self._told, self._postponed = weakref.WeakSet(), 0, ""
            return self._noted(self._loss(why))

    def _noted(self, error: EnvironmentLostError) -> EnvironmentLostError:
        self._of_loss.add(error)
        self._told += 1
        return error

    def _loss(self, why: str) -> EnvironmentLostError:
        return EnvironmentLostError(
            f"backend {self._backend!r} was lost: {why}. What the command had done by then is done, and it was "
            "not run again; the next command connects anew"
        )

    def postpone(self, error: TerminalError) -> None:
        """Have the next command raise what was raised where nobody can be told, if it is a loss that nobody else saw.

        Else that command would begin anew in another target, and its session's files and processes be gone unsaid.
        """
        with self._lock:
            if error in self._of_loss:
                self._told -= 1
                self._postponed = str(error)

    def told(self, error: Exception) -> None:
        """Note that an error which was postponed is raised after all, to somebody who had asked."""
        with self._lock:
            if error in self._of_loss:
                self._told += 1

    def _raise_postponed(self) -> None:
        if self._postponed and not self._told:
            raise self._noted(EnvironmentLostError(self._postponed))

    def begin_closing(self) -> bool:
        """Let nobody in any more. Returns whether the caller is the one to close; waits for whoever is at it.

        An earlier attempt that was cut short, by control-C, is taken up. `end_closing` is to follow.
        """
        if not self.is_ours:
            return False
        with self._lock:  # a start that is under way is waited for, and then closed
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
