"""A session: runs commands one after another, and keeps shell state when a shell is replaced."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from environments.cancellation import current_scope, start_limit
from environments.errors import EnvironmentStartError, StartStoppedError, TerminalError
from environments.internal import Ended
from environments.log import logger
from environments.loop import Call, callback_of, current, done_within, on_loop, run, shielded, spawn, waits_for
from environments.options import CheckedCommand
from environments.process import GRACE
from environments.result import CommandResult
from environments.session import EnvironmentSession
from environments.shell.dialect.base import Exported, Where, directory_name
from environments.shell.dialect.boot import ShellSpec
from environments.shell.framing import PLACE_FIELDS, WATCHED
from environments.shell.lifecycle import weak_proxy
from environments.shell.output import Outcome, Output
from environments.shell.pool import ATTEMPTS, Shells
from environments.shell.run import NotBegunError, Running, outcome_of
from environments.shell.shell import IN_PLACE, NOWHERE, REPORT_LIMIT, Shell, State
from environments.shell.state import SessionState, with_variables_of
from environments.starting import is_abandoned

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.init_files import InitFiles
    from environments.shell.users import TargetUser

INTERPRETER_VARIABLES = tuple(name for name in WATCHED if name != "PWD")
"""Variables that select a script's Python, its modules and its programs."""
CANCEL_POLL = 0.1
"""Seconds between two checks for cancellation while a command waits for the session's lock."""
OPENING_POLL = 0.02
"""Seconds between two checks of a session that another call is opening."""
NOT_REPORTED = "its jobs and the variables that are not exported"
"""State lost with a shell that was given up."""
_LEAVES = re.compile(r"\s*cd\b")

log = logger(__name__)


class Session:
    """Runs commands one after another in one shell.

    A shell ends with a command such as `exit`, or because a command had to be ended. The next shell starts with the
    directory, exports, functions, aliases, options and umask of the last state report.

    Args:
        env: The environment.
        shells: Opens shells.
        word: The prefix of its shells' numbers in markers.
        cwd: The start directory; None takes the settings' directory.
        user: The user of its shells; None is the target's default user.
    """

    def __init__(
        self,
        env: PersistentShellEnvironment,
        shells: Shells,
        word: str = "",
        cwd: str | None = None,
        user: TargetUser | None = None,
    ) -> None:
        self._env = weak_proxy(env)
        self._shells = shells
        self.word, self._user = word, user
        self.control = shells.control_of(user)
        self._first_cwd = cwd or env.settings.cwd
        self._keeps_shell = env.settings.persistent_shell
        self._init_files = _init_files(env, shells)
        self.began = time.monotonic()
        """Creation time on the monotonic clock."""
        self._lock = asyncio.Lock()
        self._owner: Call[Any] | None = None
        """The call that holds the lock."""
        self._end_requested = self.is_closed = False
        self._shell: Shell | None = None
        self._state = SessionState()
        """The state of the previous shell."""
        self._generation = 0
        self._is_in_removed_directory = False
        """True if the shell could not enter the session's directory."""
        self._must_source = False
        """True until the init files have been sourced in this target."""
        self._lost = ""
        """The part of the previous shell's state that could not be restored."""
        self.variables: Mapping[str, str] = {}
        """The watched variables after the last command; empty before the first shell."""
        self.trusted: dict[str, str] = {}
        """Variables changed by a script's tool call, with the values from before."""
        self.running: Running | None = None
        """The running command."""
        self._sent_variables: dict[str, int] = {}
        """Variables of this process passed to the shell, with the number of the request that carried each."""

    def set_user(self, user: TargetUser | None) -> None:
        """Set the user of its shells, as found in the current target."""
        if user != self._user:
            self._user, self.control = user, self._shells.control_of(user)

    # One command.

    @property
    def busy(self) -> bool:
        """True while a command holds the lock."""
        return self._owner is not None

    def check_outside(self, call: Call[Any], what: str) -> None:
        """Raise TerminalError if the caller's own command holds the lock: the caller would wait for itself."""
        owner = self._owner
        callers = [each for each in callback_of.get() if each.session is self]
        if owner and owner.owner == call.owner:
            callers.append(owner)
        if not all(each.left for each in callers):
            raise TerminalError(
                f"{what} was called while this thread runs a command in the same session, such as from on_output; call "
                "or await execute_oneshot, which runs beside it"
            )

    async def execute(self, call: Call[Any], command: CheckedCommand) -> Outcome | CommandResult:
        """Acquire the lock and run a command, see `BaseEnvironment.execute`."""
        self.check_outside(call, "execute")
        if not await self._acquire_lock(command):
            return CommandResult.never_ran(self.known_cwd or "")
        self._owner, self._end_requested, call.session = call, False, self
        try:
            if self.is_closed:
                raise TerminalError("the session was closed while the command waited for its turn; it was not run")
            self._env.life.check()
            return await self._execute_with_retries(call, command)
        except StartStoppedError:
            if not self._end_requested and not is_abandoned():
                raise
            return CommandResult.never_ran(self.known_cwd or "")
        finally:
            self._owner = None
            self._lock.release()

    async def _acquire_lock(self, command: CheckedCommand) -> bool:
        """Acquire the lock. Returns False if the command was cancelled first."""
        if not command.can_be_cancelled:
            await self._lock.acquire()
            return True
        while not command.is_cancelled:
            try:
                async with asyncio.timeout(CANCEL_POLL):
                    await self._lock.acquire()
            except TimeoutError:
                continue
            if not command.is_cancelled:
                return True
            self._lock.release()
        return False

    async def _execute_with_retries(self, call: Call[Any], command: CheckedCommand) -> Outcome | CommandResult:
        for _ in range(ATTEMPTS):
            try:
                return await self._execute_once(call, command)
            except NotBegunError:
                self._lost = NOT_REPORTED
                await self._end()
        raise self._shells.lost("its shells end as soon as they are opened")

    async def _execute_once(self, call: Call[Any], command: CheckedCommand) -> Outcome | CommandResult:
        shell = await self._shell_for(command)
        if shell is None:
            place = self.known_cwd or ""
            said = (
                f"cd: {place}: the session's directory cannot be entered any more, and nothing was run; make it again, "
                "or leave it with `cd`\n"
            )
            return CommandResult(said, 1, stderr=None, cwd=place)
        held = None
        if command.env:
            await shell.report()
            held = shell.reported
        env = self._env
        output = Output(env.internal.output_limit(command), command.separate, call.pieces)
        exports = self._unsent_variables()
        request = await env.internal.make_request(command, Where.MAIN, exports=exports, user=self._user)
        try:
            running = Running(shell, request, output, GRACE, self.control)
        except BrokenPipeError:  # the shell had ended since its last command, and has received no part of this one
            raise NotBegunError from None
        self._sent_variables |= dict.fromkeys(exports, shell.number)
        env.command_sent()
        self.running = running
        if self._end_requested:
            running.interrupt()
        try:
            outcome = await outcome_of(running, output, command.timeout, command.interrupt)
            if call.pieces is not None:
                await call.pieces.drained()  # until then, the callback has to find this command as the running one
        finally:
            self.running = None
            if (
                shell.state is State.IDLE and self._keeps_shell and not self._is_in_removed_directory
            ):  # the usual case, without a wait
                self._store_variables(shell, command)
            else:
                await shielded(spawn(self._store_state(shell, command, held)))
        await env.internal.complete(outcome, command, running)
        outcome.cwd = shell.variables.get("PWD", "")
        if self._lost:
            outcome.notes.append(f"the session's shell was replaced, and {self._lost} could not be restored")
            self._lost = ""
        return outcome

    def interrupt(self) -> None:
        """End the running command. A command on its way to the target is ended once it has begun."""
        self._end_requested = self.busy
        if self.running:
            self.running.interrupt()

    # Variables of this process, passed to the target.

    def _unsent_variables(self, given: Mapping[str, int] | None = None) -> dict[str, str]:
        """Return the variables for the next request. Each variable is sent once."""
        known = self._sent_variables if given is None else given
        variables = {**self._shells.exports(self._user), **self._env.passthrough.all_values()}
        return {name: value for name, value in variables.items() if name not in known}

    def _variables_for(self, state: SessionState) -> dict[str, str]:
        """Return the variables for a new shell that continues from a state."""
        known = self._sent_variables if state.is_reported else {}
        due = self._unsent_variables(known)
        self._offered = {**dict.fromkeys(known, 0), **dict.fromkeys(due, 1)}
        return due

    # Its shells.

    @property
    def known_cwd(self) -> str | None:
        """The directory after the last command, or the requested directory before the first."""
        return self.variables.get("PWD") or self._first_cwd

    async def _shell_for(self, command: CheckedCommand) -> Shell | None:
        """Return a shell for a command; None if the command has no directory to run in."""
        shell = self._shell
        if shell and not self._shells.is_current(shell):
            await self._end()
        elif shell and (shell.has_leftovers or shell.is_noisy):
            await self._detach_leftovers(shell)
        where = await self._open()
        if self._must_source:
            await self._source()
            where = await self._open()
        away = command.cwd is not None and command.cwd.startswith(("/", "~"))
        if where == IN_PLACE or away or (where == NOWHERE and _LEAVES.match(command.text)):
            return self._shell
        await self._end()
        return None

    async def _open(self) -> str:
        """Open a shell if there is none, and return the status of its directory, see `IN_PLACE`."""
        if self._shell:
            return IN_PLACE
        first = not self.variables
        cwd = self._first_cwd if first else self.variables["PWD"]
        shell = await self._open_successor(cwd, nowhere=not first)
        generation = self._shells.generation_of(shell)
        is_new_target = generation != self._generation
        if first or (is_new_target and not self._env.life.stays):
            self._must_source = self._init_files is not None
        if not first and shell.start_place != IN_PLACE and is_new_target:  # a new target has no such directory
            await self._shells.end(shell)
            first, shell = True, await self._open_successor(self._first_cwd, nowhere=False)
        self._generation = generation
        if first and shell.start_place != IN_PLACE:
            await self._shells.end(shell)
            raise EnvironmentStartError(
                f"the working directory {cwd} cannot be entered there; create it, or set TERMINAL_CWD to one "
                "that exists"
            )
        self._sent_variables = self._offered
        self._shell, self._is_in_removed_directory = shell, shell.start_place != IN_PLACE
        if first:
            self.variables = dict(shell.variables)
            self.trusted.clear()
        return shell.start_place

    async def _open_successor(self, cwd: str | None, *, nowhere: bool, state: SessionState | None = None) -> Shell:
        """Open a shell with the state of the previous shell, or with as much of the state as can be restored.

        Args:
            cwd: The start directory; None keeps the directory of the started process.
            nowhere: True to use a removed directory if `cwd` cannot be entered.
            state: The state; None is the state of the session's last shell.
        """
        state, shells = state or self._state, self._shells
        tries = [(state, True, "")]
        if state.is_reported:
            tries += [(state, False, "functions and aliases"), (SessionState(), False, "all but its directory")]
        error: EnvironmentStartError | None = None
        for kept, functions, lost in tries:
            marker = shells.next_marker(self.word)
            exports = {**shells.exports(self._user), **self._variables_for(kept)}
            spec = ShellSpec(marker, kept, functions, cwd, directory_name(marker) if nowhere else None, exports)
            try:
                shell = await shells.open(spec, user=self._user, is_interrupted=lambda: self._end_requested)
            except StartStoppedError:
                raise
            except EnvironmentStartError as failed:
                error = error or failed
            else:
                self._lost = lost or self._lost
                return shell
        assert error
        raise error

    async def _source(self) -> None:
        """Source the init files unless done in this target. The working directory stays."""
        shell = self._shell
        if not shell or not self._init_files or self._is_in_removed_directory:
            return

        async def again(ended: Shell) -> Shell:
            await ended.report()
            await self._shells.end(ended)
            return await self._open_successor(self.variables["PWD"], nowhere=False, state=ended.reported)

        self._shell = None
        shell = await self._init_files.source(shell, self._sent_variables, again, lambda: self._end_requested)
        self._shell, self._generation = shell, self._shells.generation_of(shell)
        self._must_source = False
        self.variables = {**shell.variables, **{name: self.variables.get(name, "") for name in PLACE_FIELDS}}
        if shell.has_leftovers or shell.is_noisy:
            await self._detach_leftovers(shell)

    async def _store_state(self, shell: Shell, command: CheckedCommand, held: SessionState | None) -> None:
        """Store the state after a command.

        Args:
            shell: The command's shell.
            command: The command.
            held: The state before a command with variables of its own. The final report of a shell ended by the command
                contains them.
        """
        if shell.state is State.ENDED:
            await shell.report()
        stays = shell.has_begun and self._store_variables(shell, command)  # else the variables are another command's
        if self._shell is not shell:
            return
        if not shell.is_idle or not self._keeps_shell or (self._is_in_removed_directory and stays):
            await self._end()
            if held and shell.has_announced_end:
                self._state = with_variables_of(self._state, held, command.env)

    def _store_variables(self, shell: Shell, command: CheckedCommand) -> bool:
        """Store the variables after a command. Returns True if the session stays in its directory."""
        values = dict(shell.variables)
        self._remember_trusted(values)
        stays = command.cwd is not None or (self._is_in_removed_directory and "hermes-" in values.get("PWD", ""))
        if stays:  # the command had a directory of its own, for this command alone
            values |= {name: self.variables.get(name, "") for name in ("PWD", "OLDPWD")}
        self.variables = values
        if shell.is_idle and shell.has_leftovers and self._shell is shell:
            spawn(self._detach_leftovers_soon(shell))
        return stays

    def _remember_trusted(self, values: Mapping[str, str]) -> None:
        """Remember the previous values of interpreter variables that a script's tool call changed."""
        scope = current_scope()
        for name in INTERPRETER_VARIABLES:
            known = self.variables.get(name, "")
            if values.get(name, "") == known:
                continue
            if scope and not scope.is_trusted:
                self.trusted.setdefault(name, known)
            else:
                self.trusted.pop(name, None)

    async def _end(self) -> None:
        """End the current shell, and keep its last reported state."""
        shell, self._shell = self._shell, None
        if shell is None:
            return
        if shell.is_given_up:
            self._lost = NOT_REPORTED
        if shell.state is State.UNFIT:
            shell.stream.close_write()  # ends the shell, after a last state report
            await done_within(shell.stream.ended, REPORT_LIMIT)
        elif shell.state is not State.CLOSED:
            await shell.report()
        self._store_report(shell)
        await self._shells.end(shell)

    def _store_report(self, shell: Shell) -> None:
        self._state = shell.reported._replace(variables=self.variables)
        self._sent_variables = {
            name: 0 for name, number in self._sent_variables.items() if number <= shell.reported_number
        }

    async def _detach_leftovers(self, shell: Shell) -> None:
        """Keep the output of an earlier command's leftovers away from later commands."""
        from environments.shell.detach import detach_leftovers  # most commands leave no process

        try:
            await detach_leftovers(shell, self._shells)
        except BrokenPipeError:
            await self._end()
        except TerminalError as error:  # the target is gone, or cannot redirect: another shell has to be opened
            self._env.life.postpone(error)
            self._shell = None
            self._store_report(shell)
            self._shells.pool.park(shell)

    async def _detach_leftovers_soon(self, shell: Shell) -> None:
        """Detach leftovers in a task, without a delay for the command that left a process."""
        async with self._lock:
            if self._shell is shell and shell.is_idle and shell.has_leftovers:
                await self._detach_leftovers(shell)

    # Queries.

    async def variable(self, name: str, *, sourced: bool = True) -> str:
        """Return a watched variable after the last command, without a wait for a running command.

        `INTERPRETER_VARIABLES` have the values set by the session's owner, not by scripts.

        Args:
            name: The variable.
            sourced: True to wait until the init files have been sourced.

        Raises:
            TerminalError: The session could not be opened.
        """
        while not self.variables or (sourced and self._must_source and not self._is_in_removed_directory):
            if self._lock.locked():  # a first command may run for long; the variables are known once its shell is open
                await asyncio.sleep(OPENING_POLL)
                self._env.life.check_wanted(lambda: False)
                continue
            async with self._lock:
                await self._open()
                if sourced and self._must_source:
                    await self._source()
        return self.trusted.get(name, self.variables.get(name, ""))

    async def exported(self) -> Exported:
        """Return the exports after the last finished command, without a wait for a running command.

        `INTERPRETER_VARIABLES` have the values set by the session's owner.

        Raises:
            TerminalError: The session could not be opened.
        """
        await self.variable("PWD")
        shell = self._shell
        if shell:
            await shell.report()
        # While a command runs, the last finished command is the previous one.
        state = self._state if shell is None else shell.reported_before if self.busy else shell.reported
        return Exported(self._shells.dialect, state, dict(self.trusted), self._unsent_variables())

    @property
    def is_ready(self) -> bool:
        """True if a shell waits for the next command."""
        shell = self._shell
        return self._lock.locked() or (shell is not None and self._shells.is_current(shell))

    @property
    def shell_pid(self) -> int | None:
        """The process id of the shell, if a shell is open in the current target."""
        shell = self._shell
        return shell.pid if shell and self._shells.is_current(shell) else None

    # The end.

    async def close(self) -> None:
        """End the running command and the shell. Commands that wait for the lock fail."""
        self.is_closed = True
        self.interrupt()
        async with self._lock:
            if shell := self._shell:
                self._shell = None
                await self._shells.end(shell)


class NamedSession(EnvironmentSession):
    """A session with shells and markers of its own.

    Args:
        name: The session's name.
        env: The environment.
        cwd: The start directory; None takes the settings' directory.
        user: The user of its shells; None is the target's default user.
    """

    def __init__(self, name: str, env: PersistentShellEnvironment, cwd: str | None, user: str | None) -> None:
        super().__init__(name, env, user)
        self._env = env
        self._session = Session(env, env.shells, f"s{next(env.session_numbers)}.", cwd)
        env.named.add(self._session)
        self._interrupts = 0
        self._is_closed = False

    def check_process(self) -> None:
        """Raise TerminalError if the session belongs to another process."""
        self._env.check_process()

    @property
    def closed(self) -> bool:
        return self._is_closed

    @property
    def busy(self) -> bool:
        return self._session.busy

    @property
    def _known_cwd(self) -> str | None:
        return self._session.known_cwd

    @property
    @on_loop
    async def cwd(self) -> str:
        self._session.set_user(await self._env.internal.ready(self.user))
        return await self._session.variable("PWD")

    async def _run(self, call: Call[Any], command: CheckedCommand) -> Ended:
        before = self._interrupts
        with start_limit(math.inf, interrupted=lambda: self._interrupts != before):
            return await self._env.internal.run_in(self._session, call, command)

    def interrupt(self) -> None:
        self._env.check_process()
        self._interrupts += 1
        current().soon(self._session.interrupt)

    async def _close(self, call: Call[None]) -> None:
        if not self._is_closed and self._env.life.is_ours:
            self._interrupts += 1
            self._session.check_outside(call, "close")
            await self._end()
        self._is_closed = True

    async def _end(self) -> None:
        env, session = self._env, self._session
        pid = session.shell_pid
        await session.close()
        env.named.discard(session)
        if not (session.variables and env.life.is_open and env.shells.dialect):
            return
        from environments.shell.kill import ProcessSelector  # most programs need no second session

        marker = env.shells.markers(session.word)
        selector = ProcessSelector(marker, env.shells.dialect, pid, ends_shell=True, began=session.began)
        with contextlib.suppress(TerminalError):
            if survivors := await session.control.tree(selector).end(GRACE):
                log.warning("processes of a session could not be ended: %s", survivors)

    @waits_for(_close)
    def close(self) -> None:
        if not self._env.life.is_ours:  # a forked child ends no process of its parent
            self._is_closed = True
        elif not self._is_closed:
            run(self._close)


def _init_files(env: PersistentShellEnvironment, shells: Shells) -> InitFiles | None:
    if not (env.settings.login_shell or env.settings.init_files):
        return None
    from environments.shell.init_files import InitFiles  # most sessions have no init files

    return InitFiles(shells, env.settings)
