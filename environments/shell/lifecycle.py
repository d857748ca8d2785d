"""The life of an environment on the loop thread: new, started, lost, closing, closed; and its garbage collection."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import os
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any

from environments.cancellation import current_start_limit
from environments.errors import CLEANED_UP, EnvironmentLostError, EnvironmentStartError, TerminalError
from environments.log import logger
from environments.loop import STOP_LIMIT, current, done_within, in_worker, run, shielded, spawn
from environments.starting import Start, current_start, stop_reason, stopped_error

if TYPE_CHECKING:
    from environments.progress import Reporter
    from environments.shell.environment import PersistentShellEnvironment

CLOSE_GRACE = 5.0
"""Seconds for a stopped start during `cleanup`. A slower start removes its own resources later."""
STOP_GRACE = 1.0
"""Seconds for a stopped start to remove its resources before the waiting callers return."""
ABORT_AGAIN = 0.1
"""Seconds until a stopped start is aborted again: the first abort may have hit between two waits."""
LOOK_AGAIN = 0.05
"""Seconds between two checks for callers that still wait for a start."""

log = logger(__name__)


class Stage(Enum):
    """The stage of an environment."""

    NEW = "new"
    """The target is not up: not yet needed, or lost."""
    STARTED = "started"
    CLOSING = "closing"
    CLOSED = "closed"


def weak_proxy(env: PersistentShellEnvironment) -> PersistentShellEnvironment:
    """Return a proxy of an environment for its parts, to allow garbage collection once its users have dropped it."""
    proxy: PersistentShellEnvironment = env if isinstance(env, weakref.ProxyType) else weakref.proxy(env)
    return proxy


async def call_backend(method: Callable[..., object], *args: object) -> Any:  # noqa: ANN401  # the method's result
    """Return the result of a backend's method: a coroutine is awaited, a plain function runs in a worker thread."""
    answer = method(*args) if inspect.iscoroutinefunction(method) else await in_worker(method, *args)
    return await answer if inspect.isawaitable(answer) else answer


class Lifecycle:
    """Starts the target on first use and after a loss, and closes the target once.

    Belongs to the process of its creation. A forked child can neither use nor end the environment.

    Args:
        env: The environment.
        name: The backend's name, for errors.
        stays: True if a loss affects only the link, and the target stays the same.
        reporter: Receives the steps of a start.
    """

    def __init__(
        self, env: PersistentShellEnvironment, name: str, *, stays: bool = False, reporter: Reporter | None = None
    ) -> None:
        self._env = weak_proxy(env)
        self._name = name
        self._reporter = reporter
        self._pid = os.getpid()
        self._starting: Starting | None = None
        self._earlier: set[Starting] = set()
        """Ended starts with work still in progress, undone at its end."""
        self._closing: asyncio.Task[None] | None = None
        self._given_up = False
        self.stage = Stage.NEW
        self.generation = 0
        """The count of targets so far. Streams opened in an earlier target are useless."""
        self.stays = stays
        """True if the target stays the same after a loss."""
        self._losses: weakref.WeakSet[TerminalError] = weakref.WeakSet()
        """The errors of the last loss."""
        self._raised_count = 0
        """The count of these errors raised to a caller."""
        self._unraised = ""
        """The message of an error not raised to any caller."""
        self._token = weakref.ref(env)
        _open.add(self._token)

    # In any thread.

    @property
    def is_ours(self) -> bool:
        """True in the process that made the environment."""
        return self._pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """True until `cleanup` is called."""
        return self.stage in (Stage.NEW, Stage.STARTED)

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        if not self.is_ours:
            raise TerminalError(
                f"this environment (backend {self._name!r}) belongs to process {self._pid}, and this process is a "
                "fork; create one here"
            )

    def check(self) -> None:
        """Raise TerminalError if the environment was cleaned up, or belongs to another process."""
        self.check_process()
        if not self.is_open:
            raise TerminalError(CLEANED_UP)

    # Losses of the target: each is raised to a caller at least once.

    def lost(self, why: str, generation: int | None = None) -> EnvironmentLostError:
        """Mark the target as lost, so that the next command restarts it, and return the error to raise.

        Args:
            why: The reason.
            generation: The generation of the lost target; a replaced target is not lost again.
        """
        error = EnvironmentLostError(
            f"backend {self._name!r} was lost: {why}. What the command had done by then is done, and it was "
            "not run again; the next command connects anew"
        )
        if generation not in (None, self.generation):
            return error
        if self.stage is Stage.STARTED:
            log.debug("backend %r: the target is lost: %s", self._name, why)
            self.stage = Stage.NEW
            self._losses, self._raised_count, self._unraised = weakref.WeakSet(), 0, ""
        return self._raised(error)

    def _raised(self, error: EnvironmentLostError) -> EnvironmentLostError:
        self._losses.add(error)
        self._raised_count += 1
        return error

    def postpone(self, error: TerminalError) -> None:
        """Have the next command raise a loss noticed without a caller.

        Otherwise the command would run in a new target, and the loss of the session's files and processes would go
        unreported.
        """
        if error in self._losses and not self.stays:
            self._raised_count -= 1
            self._unraised = str(error)

    def note_raised(self, error: Exception) -> None:
        """Note that a postponed error is raised after all."""
        if error in self._losses:
            self._raised_count += 1

    # On the loop: starts.

    def check_wanted(self, is_interrupted: Callable[[], bool]) -> None:
        """Raise StartStoppedError if the current task's caller no longer waits."""
        reason = ("it was interrupted", False) if is_interrupted() else stop_reason()
        if reason:
            raise stopped_error(self._name, *reason)

    async def ensure_started(self, internal: bool = False) -> int:
        """Start the target unless it is up, and return its generation.

        Args:
            internal: True for internal commands, allowed during cleanup.

        Raises:
            TerminalError: As `check` does, or because the start failed.
            StartStoppedError: The start was stopped, or the caller's limit or scope ended the wait.
            EnvironmentLostError: A postponed loss.
        """
        if internal and self.stage is Stage.CLOSING and self.is_ours:
            return self.generation
        self.check()
        while self.stage is not Stage.STARTED:
            starting = self._starting
            if starting is None:
                if self._unraised and not self._raised_count:
                    raise self._raised(EnvironmentLostError(self._unraised))
                self.generation += 1
                starting = self._starting = Starting(self._name, self._reporter)
                starting.begin(self._bring_up(starting))
            elif current_start() is starting.start:
                raise TerminalError("the environment was used from on_progress while it starts; use it when it is up")
            await starting.wait()
            self.check()
        return self.generation

    async def _bring_up(self, starting: Starting) -> None:
        try:
            await self._start_target(starting.start)
            if self.stage is Stage.NEW:
                self.stage = Stage.STARTED
        except asyncio.CancelledError as error:
            raise EnvironmentStartError("the start was cancelled") from error
        finally:
            self._start_ended(starting)

    async def _start_target(self, start: Start) -> None:
        env, began = self._env, time.monotonic()
        with start.active():
            if not env.same_machine:
                await start.report_on_loop("starting")
            with env.observation.start() as operation:
                if inspect.iscoroutinefunction(env.start_target):
                    await self._start_here(start)
                else:
                    await in_worker(env.start_target)
                target = env.observation.target
                operation.add_facts(target=" ".join(target) if target else None)
            if not env.same_machine:
                await start.report_on_loop(f"started in {time.monotonic() - began:.1f} s", complete=True)

    async def _start_here(self, start: Start) -> None:
        """Start the target by a coroutine. A stop cancels the coroutine once, as its cleanup may take time."""
        task = asyncio.current_task()
        assert task
        try:
            with start.aborting(lambda: task.cancelling() or task.cancel()):
                await call_backend(self._env.start_target)
        except asyncio.CancelledError:
            start.check()
            raise

    def _start_ended(self, starting: Starting) -> None:
        self._starting = None
        self._earlier = {starting, *(each for each in self._earlier if not each.is_over)}
        if self._given_up:  # resources of this start were missing when the target was taken down
            spawn(call_backend(self._env.stop_target))

    def stop_start(self, why: str) -> None:
        """Stop the start in progress, if any, for all its waiting callers."""
        if starting := self._starting:
            starting.stop(why)

    async def _end_starts(self) -> None:
        under_way = self._starting
        starts = {*self._earlier, *([under_way] if under_way else [])}
        if under_way:
            under_way.stop("the environment was cleaned up")
        deadline = time.monotonic() + CLOSE_GRACE
        ended = [await each.join(max(0.0, deadline - time.monotonic())) for each in starts]
        if not all(ended):
            self._given_up = self._starting is not None
            log.warning("backend %r: a stopped start waits for an answer, and removes its resources then", self._name)

    # On the loop: the end.

    async def close(self, end_all: Callable[[], Any]) -> None:
        """End everything once. All callers wait for the same end. The end goes on if a caller leaves."""
        if self._closing is None:
            if self.stage is Stage.CLOSED:
                return
            self.stage = Stage.CLOSING
            self._closing = spawn(self._close(end_all))
        await shielded(self._closing)

    async def _close(self, end_all: Callable[[], Any]) -> None:
        try:
            await self._end_starts()
            await end_all()
        finally:
            log.debug("backend %r: cleaned up", self._name)
            self.stage = Stage.CLOSED
            _open.discard(self._token)

    # Garbage collection.

    def clean_up_abandoned(self, env: PersistentShellEnvironment) -> None:
        """Clean up an environment at its garbage collection or at the end of the program, with a warning."""
        if not self.is_ours or not self.is_open:
            return
        if self.stage is Stage.STARTED:
            warnings.warn(
                f"an environment (backend {self._name!r}) was not cleaned up; use it in a `with` block, or call "
                "cleanup()",
                ResourceWarning,
                stacklevel=3,
            )
        if not (self.generation or env.forked_from):
            self.stage = Stage.CLOSED
            _open.discard(self._token)
        else:
            current().soon(_spawn_close, env)


def _spawn_close(env: PersistentShellEnvironment) -> None:
    spawn(_close_quietly(env))


async def _close_quietly(env: PersistentShellEnvironment) -> None:
    with contextlib.suppress(TerminalError):
        await env.close()


class Starting:
    """One start of a target with its waiting callers. Stopped when the last caller has left.

    Args:
        name: The backend's name.
        reporter: Receives the steps of the start.
    """

    def __init__(self, name: str, reporter: Reporter | None) -> None:
        self.start = Start(name, reporter)
        self._waiting = 0

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin the start."""
        self._task = spawn(work, may_fail=True)

    @property
    def is_over(self) -> bool:
        """True once no work of the start is in progress."""
        return self._task.done() and not self.start.has_detached_work

    def stop(self, why: str) -> None:
        """Stop the start for all waiting callers, without a wait for its end."""
        self.start.mark_stopped(why)
        self.start.abort()

    async def join(self, seconds: float) -> bool:
        """Wait for the end of a stopped start and of its remaining work. Returns True if all has ended."""
        deadline = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < deadline:
            self.start.abort()
            await done_within(self._task, ABORT_AGAIN) if not self._task.done() else await asyncio.sleep(0.01)
        return self.is_over

    async def wait(self) -> None:
        """Wait until the start is over.

        Raises:
            StartStoppedError: The start was stopped, or the caller may no longer wait.
            BaseException: The error of the start.
        """
        late = self.start.stopped  # only waits for the removal of its resources, before a new try
        limit = current_start_limit()
        self._waiting += 1
        try:
            while not self._task.done() and (late or not self.start.stopped):
                if reason := stop_reason():
                    raise stopped_error(self.start.backend, *reason)
                patience = LOOK_AGAIN if limit is None else min(limit.left, LOOK_AGAIN)
                await done_within(self._task, patience)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._task.done() and not self.start.stopped:
                self.start.mark_stopped(*(stop_reason() or ("its last caller left", False)))
                self.start.abort()
                await shielded(spawn(self.join(STOP_GRACE)))
        if self.start.stopped and not late:
            await self.join(STOP_GRACE)
            raise self.start.error()
        if not self.start.stopped:
            self._task.result()


_open: set[weakref.ref[PersistentShellEnvironment]] = set()


async def _close_all(_: object) -> None:
    environments = [env for reference in list(_open) if (env := reference()) is not None and env.life.is_ours]
    for env in environments:
        env.life.clean_up_abandoned(env)
    if ends := [spawn(_close_quietly(env)) for env in environments]:
        await asyncio.wait(ends, timeout=STOP_LIMIT)


def _clean_up_all() -> None:
    if any((env := reference()) is not None and env.life.is_ours for reference in list(_open)):
        with contextlib.suppress(TerminalError):
            run(_close_all)


def clean_up_first() -> None:
    """Register the cleanup again, to run before all exit handlers registered so far.

    The client of a service may have registered its own exit handler, and no target can be ended after the client.
    """
    atexit.unregister(_clean_up_all)
    atexit.register(_clean_up_all)


clean_up_first()
