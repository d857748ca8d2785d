"""The shells of a target: opening them, the pool of warm shells, and shells for internal commands."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from environments.errors import (
    CallCancelledError,
    EnvironmentLostError,
    EnvironmentStartError,
    StartStoppedError,
    TerminalError,
)
from environments.loop import current, done_within, shielded, spawn
from environments.owner import MARKER_VARIABLE
from environments.shell.dialect.base import Dialect, ShellRequest, Where
from environments.shell.dialect.bash import Bash
from environments.shell.dialect.boot import ShellSpec, boot_argv
from environments.shell.dialect.commands import signalling
from environments.shell.lifecycle import Lifecycle, Stage, call_backend
from environments.shell.output import Output
from environments.shell.rescue import SILENCE, Rescue
from environments.shell.shell import Ended, Shell, open_shell
from environments.shell.state import SessionState
from environments.shell.stream import BlockingStream, Discard, Stream, Terminal, as_stream
from environments.shell.watchdogs import Watchdogs
from environments.starting import is_abandoned

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.fork_bomb import ForkBombHandler
    from environments.shell.kill import ProcessSelector, ProcessTree
    from environments.shell.users import TargetUser

IDLE_LIMIT = 4
"""Idle shells kept by a pool. More are opened while more commands run at once, and closed afterwards."""
SLOT_LIMIT = 300.0
"""Seconds to wait for a slot, if the target limits its shells."""
CANCEL_POLL = 0.1
"""Seconds between two checks for cancellation during this wait."""
RESERVE_DELAY = 0.02
"""Seconds after a command until the reserve shell is opened, if the command still runs."""
LONGEST_RESERVE_DELAY = 1.0
"""Seconds after the first command until the reserve shell is opened in any case: a background process may run."""
CONTROL_LIMIT = 10.0
"""Seconds for an internal command. A target without an answer by then is lost."""
BUILTINS_LIMIT = 30.0
"""Seconds for an internal command of builtins. Among the processes of a fork bomb the shell is scheduled late; a
command given up would later stop all processes, along with the replacement shell."""
CONTROL_OUTPUT = 64_000_000
"""Output bytes kept of an internal command."""
ATTEMPTS = 3
"""Shells tried for a command."""
FIRST_LOOK, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the first query of a parked shell for leftover processes, and the longest pause between queries."""
NOTHING = SessionState()
_WENT_AWAY = "it went away while a shell was opened"


async def opened(open_stream: Callable[..., object], *args: object) -> Stream:
    """Return a stream opened by a backend. If the task is cancelled, the stream is closed."""
    opening = spawn(call_backend(open_stream, *args))
    try:
        return as_stream(await shielded(opening))
    except asyncio.CancelledError:
        spawn(_close_unused(opening))
        raise


async def _close_unused(opening: asyncio.Task[Stream | BlockingStream]) -> None:
    with contextlib.suppress(Exception):  # no task waits for the error
        stream = as_stream(await opening)
        stream.start(Discard())
        await stream.close()


class Shells:
    """Opens shells in a target, and holds all open shells.

    Args:
        env: The environment.
        life: Its lifecycle.
    """

    def __init__(self, env: PersistentShellEnvironment, life: Lifecycle) -> None:
        self.env: PersistentShellEnvironment = weakref.proxy(env)
        self.life = life
        # A command may use this package itself: nested processes then belong to the command too.
        outer = os.environ.get(MARKER_VARIABLE, "")
        self._owner = f"{outer}:{env.id}" if outer else env.id
        self._numbers = itertools.count(1)
        self._open: dict[Shell, int] = {}
        self._fork_bomb_handler: ForkBombHandler | None = None
        self.base = NOTHING
        """The initial state of shells beside the session: the exports of the init files."""
        self.dialect: type[Dialect] | None = None
        """The dialect of the target, once a shell has been opened."""
        self.home = ""
        """The home directory of the target's default user."""
        ours = 2 if env.network else 1  # internal commands, and the network's proxy
        self._slots = asyncio.Semaphore(env.max_streams - ours) if env.max_streams else None
        self.pool = ShellPool(self, None, self._slots)
        self._of_users: dict[TargetUser, ShellPool] = {}
        self.control = Control(self, None)
        self._control_of_users: dict[TargetUser, Control] = {}
        self.watchdogs = Watchdogs(self)
        self.rescue = Rescue(self)

    # Markers.

    def markers(self, word: str = "") -> str:
        """Return the marker prefix of all shells of one session. `0/` is for processes of no shell."""
        return f"{self._owner}/{word}"

    def next_marker(self, word: str = "") -> str:
        """Return the marker of a new shell."""
        return f"{self.markers(word)}{next(self._numbers)}/"

    # Opening.

    def exports(self, user: TargetUser | None = None) -> Mapping[str, str]:
        """Return the variables for a shell. With `scrub_env`, includes the settings' variables."""
        settings = self.env.settings
        given = settings.own.target_variables() if settings.scrub_env else {}
        return {**given, **(user.variables if user else {})}

    async def open(
        self,
        spec: ShellSpec,
        *,
        user: TargetUser | None = None,
        terminal: Terminal | None = None,
        internal: bool = False,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> Shell:
        """Open a shell.

        Args:
            spec: The start configuration.
            user: The user; None is the target's default user.
            terminal: The size of its terminal; None is pipes.
            internal: True for internal commands, allowed during cleanup.
            is_interrupted: Returns True to end the wait.

        Raises:
            EnvironmentStartError: The shell could not be opened.
            EnvironmentLostError: The target is gone.
            TerminalError: The environment was cleaned up.
        """

        def check() -> None:
            if not internal:
                self.life.check()
                self.life.check_wanted(is_interrupted)

        generation = await self.life.ensure_started(internal)
        env = self.env
        spec = spec._replace(known=self.dialect, lags=env.streams_lag, on_terminal=terminal is not None)
        try:
            argv = boot_argv(spec.marker, terminal is not None, env.settings.scrub_env)
            how = (env.open_stream_as, user) if user else (env.open_stream,)
            stream = await opened(*how, argv, terminal)
            spec = spec._replace(known=Bash if stream.is_bash else spec.known)
            shell = await open_shell(stream, spec, check)
        except StartStoppedError:
            raise
        except EnvironmentStartError:
            now = await self.life.ensure_started(internal)
            loss = await self.why_lost()
            if loss is None and now != generation:  # another task has noticed the loss and restarted the target
                loss = _WENT_AWAY
            if loss:
                raise self.life.lost(loss, generation) from None
            raise
        self._open[shell] = generation
        if user is None:
            self.dialect, self.home = type(shell.dialect), shell.home
            if self.dialect is Bash:
                env.found_bash()
        may_stay = self.life.is_open or (internal and self.life.stage is Stage.CLOSING)
        if not may_stay or generation != self.life.generation:
            await self.end(shell)  # closed or lost meanwhile
            self.life.check()
            raise self.life.lost(_WENT_AWAY, generation)
        return shell

    # Open shells.

    def is_current(self, shell: Shell) -> bool:
        """Return True if a shell is idle, and in the current target."""
        return shell.is_idle and self.generation_of(shell) == self.life.generation

    def generation_of(self, shell: Shell) -> int:
        """Return the generation of a shell's target."""
        return self._open.get(shell, 0)

    async def end(self, shell: Shell) -> None:
        """Close a shell."""
        self._open.pop(shell, None)
        await self.watchdogs.dismiss(shell)
        await shell.close()

    def end_soon(self, shell: Shell) -> None:
        """Close a shell in a task of its own."""
        spawn(self.end(shell))

    async def end_all(self, but: Collection[Shell] = ()) -> None:
        """Close all shells, lent shells included, except some."""
        shells = [shell for shell in self._open if shell not in but]
        if shells:
            await asyncio.gather(*map(self.end, shells), return_exceptions=True)

    def pids(self) -> list[int]:
        """Return the process ids of the open shells."""
        return [shell.pid for shell in self._open if shell.pid]

    # The target.

    async def why_lost(self) -> str | None:
        """Return the reason why the target is gone, or None while it is there."""
        loss: str | None = await call_backend(self.env.target_loss)
        return loss

    def lost(self, why: str | None, shell: Shell | None = None) -> EnvironmentLostError:
        """Mark the target as lost, and return the error to raise."""
        generation = self.generation_of(shell) if shell else None
        return self.life.lost(why or "the link to it dropped", generation)

    def forget(self) -> None:
        """Drop all idle shells from the pools, as everything is being ended."""
        for pool in (self.pool, *self._of_users.values(), *self.controls()):
            pool.forget()

    # Users, and the end of their processes.

    def pool_of(self, user: TargetUser | None) -> ShellPool:
        """Return a user's pool."""
        if user is None:
            return self.pool
        return self._of_users.setdefault(user, ShellPool(self, user, self._slots))

    def control_of(self, user: TargetUser | None) -> Control:
        """Return a user's control shells."""
        if user is None or user.is_default:
            return self.control
        return self._control_of_users.setdefault(user, Control(self, user))

    def controls(self) -> list[Control]:
        """Return the control shells of all users with commands so far; the target's default user is last."""
        return [*self._control_of_users.values(), self.control]

    def fork_bomb_handler(self) -> ForkBombHandler | None:
        """Return the fork bomb handler; None without a reserve shell."""
        if not self.env.has_reserve:
            return None
        if self._fork_bomb_handler is None:
            from environments.shell.fork_bomb import ForkBombHandler

            env = self.env
            self._fork_bomb_handler = ForkBombHandler(
                self.control.run_builtins, lambda: env.owns_all_processes, env.settings.container_pids
            )
        return self._fork_bomb_handler


class ShellPool:
    """Lends shells to borrowers, and opens a shell when none is idle.

    | a shell is | until                                           | then                                       |
    |------------|-------------------------------------------------|--------------------------------------------|
    | lent       | it is released                                  | idle, parked or closed                     |
    | idle       | it is acquired, last in, first out              | lent; closed if it prints, or has ended    |
    | parked     | no process is left of its commands              | closed                                     |

    Args:
        shells: Opens them.
        user: The user of its shells; None is the target's default user.
        slots: Limits the shells lent at once, if the target has a limit.
    """

    internal = False

    def __init__(self, shells: Shells, user: TargetUser | None, slots: asyncio.Semaphore | None = None) -> None:
        self.shells: Shells = weakref.proxy(shells)
        self._user = user
        self._slots = slots
        self._idle: list[Shell] = []
        self._parked: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def lease(self) -> AsyncIterator[Shell]:
        """Lend a shell for the time of the block. Raises as `acquire` does."""
        shell = await self.acquire()
        try:
            yield shell
        finally:
            self.release(shell)

    async def acquire(self) -> Shell:
        """Return a shell, reserved for the caller until `release`.

        Raises:
            CallCancelledError: The call was cancelled during the wait.
            TerminalError: The environment was cleaned up, or all shells were in use for `SLOT_LIMIT`.
            EnvironmentStartError: A new shell could not be opened.
        """
        if self._slots:
            await self._acquire_slot(self._slots)
        try:
            return await self._idle_or_new()
        except BaseException:
            if self._slots:
                self._slots.release()
            raise

    async def _acquire_slot(self, slots: asyncio.Semaphore) -> None:
        deadline = current().loop.time() + SLOT_LIMIT
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CANCEL_POLL):
                    await slots.acquire()
                    return
            if is_abandoned():
                raise CallCancelledError("the call was cancelled while it waited for another command's end")
            if current().loop.time() > deadline:
                raise TerminalError(
                    f"all commands allowed at once by the target were running for {SLOT_LIMIT:.0f} s; end a command or "
                    "a background process"
                )

    async def _idle_or_new(self) -> Shell:
        while self._idle:
            shell = self._idle.pop()
            if self.shells.is_current(shell) and not shell.is_noisy:
                return shell
            await self.shells.end(shell)
        return await self.open()

    async def open(self, terminal: Terminal | None = None) -> Shell:
        """Open a shell without a borrower, see `Shells.open`; on a terminal if a size is given."""
        shells = self.shells
        state = NOTHING if self.internal or self._user else shells.base
        spec = ShellSpec(shells.next_marker(), state, functions=False, exports=shells.exports(self._user))
        return await shells.open(spec, user=self._user, terminal=terminal, internal=self.internal)

    def release(self, shell: Shell) -> None:
        """Return a shell to the pool: kept for the next borrower, parked, or closed."""
        if self._slots:
            self._slots.release()
        is_current = self.shells.is_current(shell)
        if is_current and shell.has_leftovers:
            self.park(shell)
        elif is_current and len(self._idle) < IDLE_LIMIT:
            self._idle.append(shell)
        else:
            self.shells.end_soon(shell)

    def park(self, shell: Shell) -> None:
        """Close a shell once no process of its commands is left."""
        task = spawn(self._close_when_quiet(shell))
        self._parked.add(task)
        task.add_done_callback(self._parked.discard)

    async def _close_when_quiet(self, shell: Shell) -> None:
        pause = FIRST_LOOK
        try:
            while shell.is_idle:
                await asyncio.sleep(pause)
                if not (await shell.query(shell.dialect.asking_for_leftovers)).left:
                    return
                pause = min(pause * 2, LONGEST_PAUSE)
        except BrokenPipeError:
            pass
        finally:
            await self.shells.end(shell)

    @property
    def idle(self) -> list[Shell]:
        """The shells without a borrower. The last is lent next."""
        return list(self._idle)

    def forget(self) -> None:
        """Drop all shells, as everything is being ended."""
        self._idle.clear()
        for task in self._parked:
            task.cancel()


class Control(ShellPool):
    """Runs internal commands as one user, in shells without user commands, and ends users' commands.

    The limit of user commands does not apply. One shell is opened along with the user's first command, so that a
    command can be ended even when file descriptors, processes or streams have run out.
    """

    internal = True

    def __init__(self, shells: Shells, user: TargetUser | None) -> None:
        super().__init__(shells, user)
        self._reserving: asyncio.Task[None] | None = None
        self._replacing: asyncio.Task[None] | None = None
        self._is_due = False

    async def open(self, terminal: Terminal | None = None) -> Shell:
        shell = await super().open(terminal)
        if self._user is None and self.shells.env.has_watchdog:
            self.shells.watchdogs.arm(shell)
        return shell

    # The reserve shell.

    def reserve(self) -> None:
        """Schedule the opening of the reserve shell, without a delay for the command just sent or the next commands."""
        if self._reserving or not self.shells.life.is_open:
            return
        thread = current()
        thread.timer(RESERVE_DELAY).schedule(self, self._reserve_if_busy)
        if not self._is_due:
            self._is_due = True
            thread.timer(LONGEST_RESERVE_DELAY).schedule(self, self._begin_reserve)

    def _reserve_if_busy(self) -> None:
        if self.shells.env.busy:
            self._begin_reserve()

    def _begin_reserve(self) -> None:
        self._end_delays()
        if self.shells.life.is_open:
            self._reserving = spawn(self._reserve())

    def _end_delays(self) -> None:
        self._is_due = False
        for seconds in (RESERVE_DELAY, LONGEST_RESERVE_DELAY):
            current().timer(seconds).cancel(self)

    async def _reserve(self) -> None:
        # Also imports the modules that end a command: later there may be no file descriptor left to read them.
        from environments.shell import fork_bomb, kill  # noqa: F401

        try:
            self.release(await self.open())
        except TerminalError as error:
            self.shells.life.postpone(error)

    def forget(self) -> None:
        self._end_delays()
        if self._replacing:
            self._replacing.cancel()
        super().forget()

    async def keep_reserve(self) -> None:
        """Keep a shell in reserve while another is lent for long: a busy shell cannot end a command.

        If scripts can stop all processes, the shell is opened before the script begins: a stop during the start of a
        process in a container blocks the engine. Elsewhere the shell is opened soon, without a delay.
        """
        env = self.shells.env
        if not env.has_watchdog or len(self._idle) > 1 or (self._replacing and not self._replacing.done()):
            return
        self._replacing = spawn(self._replace(0.0 if env.owns_all_processes else RESERVE_DELAY))
        if env.owns_all_processes:
            await asyncio.wait((self._replacing,))

    async def _replace(self, delay: float) -> None:
        await asyncio.sleep(delay)
        if self.shells.life.is_open and (not delay or not self._idle):
            with contextlib.suppress(TerminalError):  # its later user meets the error too
                self.release(await self.open())

    async def await_reserve(self) -> None:
        """Wait until the scheduled or starting reserve shell is open, if there is one."""
        if self._is_due:
            self._begin_reserve()
        if (task := self._reserving) and not task.done():
            await asyncio.wait((task,))

    async def _idle_or_new(self) -> Shell:
        """Return an idle shell, or a new shell. It may be needed to end a command that stops all processes."""
        await self.await_reserve()
        if self._idle:
            return await super()._idle_or_new()
        await self.shells.rescue.before_opening()
        try:
            return await self._opened()
        except EnvironmentStartError:
            deadline = current().loop.time() + CONTROL_LIMIT
            while current().loop.time() < deadline:
                if self._idle:
                    return await super()._idle_or_new()
                await asyncio.sleep(CANCEL_POLL)
            raise

    async def _opened(self) -> Shell:
        """Open a shell. The process behind its stream may be stopped, or not answer."""
        shells = self.shells
        opening = spawn(self.open())
        try:
            while not await done_within(opening, SILENCE):
                if not shells.env.has_other_way:
                    continue
                shells.rescue.begin()
                await shells.rescue.ended()
                if not opening.done() and (loss := await shells.why_lost()):
                    raise shells.lost(loss)
        finally:
            opening.cancel()
        return opening.result()

    # Internal commands.

    async def run(self, text: str, timeout: float = CONTROL_LIMIT) -> str:
        """Run shell text by `run_with_code`, or by the backend's way without a shell, and return the output."""
        run = self.run_with_code if self._user else self.shells.env.run_internal
        output, _ = await run(text, timeout)
        return output

    async def run_with_code(self, text: str, timeout: float = CONTROL_LIMIT) -> tuple[str, int]:
        """Run shell text in a shell with a time-out, and return the output and the exit code.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        shells = self.shells
        for _ in range(ATTEMPTS):
            output = Output(CONTROL_OUTPUT)
            async with self.lease() as shell:
                answer: asyncio.Future[Ended] = current().loop.create_future()
                watch = shells.rescue.watch(shell)
                try:
                    shell.send(ShellRequest(text, Where.SUBSHELL), output, answer.set_result)
                    await asyncio.wait((answer,), timeout=timeout)
                except BrokenPipeError:  # the idle shell had ended
                    continue
                finally:
                    watch.cancel()
                    if not answer.done():
                        shell.give_up()
                if answer.done() and (code := answer.result().exit_code) is not None:
                    return output.stdout.text().text, code
                if answer.done() and not shell.has_begun:
                    continue
                silent = "the link to it dropped" if answer.done() else f"it did not answer for {timeout:.0f} s"
                raise shells.lost(await shells.why_lost() or silent, shell)
        raise shells.lost(await shells.why_lost() or "its shells end as soon as they are opened")

    async def run_builtins(self, text: str) -> str:
        """Run text of builtins in the shell itself, without a new process. The text may run twice.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        shells = self.shells
        for _ in range(ATTEMPTS - 1):
            output = Output(CONTROL_OUTPUT)
            async with self.lease() as shell:
                watch = shells.rescue.watch(shell, is_query=True)
                try:
                    await shell.query(partial(shell.dialect.running_builtins, text), output, BUILTINS_LIMIT)
                    return output.stdout.text().text
                except BrokenPipeError:  # the idle shell had ended, or does not answer
                    loss = await shells.why_lost()
                    if loss:
                        raise shells.lost(loss, shell) from None
                finally:
                    watch.cancel()
        raise shells.lost(await shells.why_lost() or "the shells that would end its processes do not answer")

    # The end of users' commands.

    def tree(self, selector: ProcessSelector) -> ProcessTree:
        """Return a process tree that finds and ends the selected processes."""
        from environments.shell.kill import ProcessTree  # most commands end by themselves

        env, handler = self.shells.env, None if self._user else self.shells.fork_bomb_handler()
        return ProcessTree(self.run, selector, handler, env.hunt if env.can_hunt else None)

    async def signal(self, signal: str, pid: int) -> None:
        """Send a signal to a process of the target. Raises as `run` does."""
        await self.run(signalling(signal, (pid,)))

    async def resume_shell(self, shell: Shell) -> None:
        """Continue a possibly stopped shell. Raises as `run` does."""
        rescue = self.shells.rescue
        rescue.begin()
        await rescue.ended()
        if self._user:  # another user may not signal its processes
            await self.signal("CONT", shell.pid)
