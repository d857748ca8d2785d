"""The steps of a command on the loop: find the user, write the input, run in a session or a shell, build the result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from environments.cancellation import check_scope, current_scope, start_limit
from environments.errors import CallCancelledError
from environments.internal import Ended, Internal
from environments.loop import Call, on_loop
from environments.options import CheckedCommand
from environments.process import Background
from environments.result import KILLED_EXIT_CODE, CommandResult
from environments.shell.dialect.base import ShellRequest, Where
from environments.shell.dialect.bash import Bash
from environments.shell.lifecycle import call_backend, weak_proxy
from environments.shell.output import Outcome
from environments.shell.run import Running

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment
    from environments.shell.process import Processes, ShellProcess
    from environments.shell.scope_processes import ScopeProcesses
    from environments.shell.session import Session
    from environments.shell.users import TargetUser

LONG_COMMAND = 32 * 1024
"""Characters above which a command is sent as a file, to shells that read scripts in small pieces."""
_NO_EXPORTS: Mapping[str, str] = {}


class Commands(Internal):
    """Runs an environment's commands, and internal commands of this package.

    Args:
        env: The environment.
    """

    def __init__(self, env: PersistentShellEnvironment) -> None:
        super().__init__(env.settings)
        self._env = weak_proxy(env)
        self._processes: Processes | None = None
        self._users: dict[str, TargetUser] = {}
        self._users_generation = 0

    # Called from any thread, see `Internal`.

    @property
    def known_cwd(self) -> str | None:
        return self._env.session_of_execute.known_cwd

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        self._env.life.check_process()

    @on_loop
    async def variable(self, name: str) -> str:
        return await self._env.session_of_execute.variable(name)

    @on_loop
    async def scratch_directory(self) -> str:
        return await self._env.scratch.directory()

    @on_loop
    async def why_killed(self) -> str | None:
        why: str | None = await call_backend(self._env.why_killed)
        return why

    def check_usable(self) -> None:
        self._env.file_calls.check()

    # Kinds of commands.

    async def run_in_session(self, call: Call[Any], command: CheckedCommand) -> Ended:
        return await self.run_in(self._env.session_of_execute, call, command)

    async def run_in(self, session: Session, call: Call[Any], command: CheckedCommand) -> Ended:
        """Run a command in one of the sessions."""
        env = self._env
        env.check_process()
        session.check_outside(call, "execute")
        try:
            with _interruptible_start(command):
                session.set_user(await self.ready(command.user))
                return _ended(await session.execute(call, command), command)
        finally:
            env.touch()

    async def run_beside(self, call: Call[Any], command: CheckedCommand) -> Ended:
        env = self._env
        env.check_process()
        try:
            with _interruptible_start(command):
                user = await self.ready(command.user)
                env.command_sent()
                return _ended(await env.oneshots.execute(command, user, call.pieces), command)
        finally:
            env.touch()

    async def run_in_background(self, call: Call[Any], command: CheckedCommand, background: Background) -> ShellProcess:
        self._env.check_process()
        check_scope()
        user = await self.ready(command.user)
        self._env.command_sent()
        process = await self._starter().start(call, command, background, user)
        if not command.is_internal and (scope := self._scope_processes()):
            scope.add_process(process)
        if command.is_cancelled:
            await process.dropped()
            raise CallCancelledError("the scope was cancelled while the command was started, and it was ended")
        return process

    def _starter(self) -> Processes:
        if self._processes is None:
            from environments.shell.process import Processes  # most commands run in the foreground

            self._processes = Processes(self._env, self._env.shells)
        return self._processes

    @property
    def processes(self) -> list[ShellProcess]:
        """The commands that run in the background."""
        return list(self._processes.running) if self._processes else []

    # Steps.

    async def ready(self, user: str | None) -> TargetUser | None:
        """Start the target unless it is up, and find a command's user.

        Raises:
            UnsupportedError: There is no such user, or no way to become that user.
        """
        env = self._env
        generation = await env.life.ensure_started()
        if env.network:
            await env.network.ensure()
        found = None
        if user is not None:
            if generation != self._users_generation:
                self._users, self._users_generation = {}, generation
            found = self._users.get(user)
            if found is None:
                found = self._users[user] = await call_backend(env.find_user, user)
        if env.owns_all_processes:  # a command may stop all processes: first open the shell that would end it
            await env.shells.control.await_reserve()
        return found

    async def make_request(
        self,
        command: CheckedCommand,
        where: Where,
        exports: Mapping[str, str] = _NO_EXPORTS,
        separate: bool | None = None,
        user: TargetUser | None = None,
    ) -> ShellRequest:
        """Return the request for a command. Writes its input, and a long text, to files owned by the user."""
        env = self._env
        if not command.is_internal:
            self._scope_processes()  # takes a baseline of existing processes
        text, stdin_file, command_file = command.text, None, None
        if command.stdin:
            stdin_file = await env.scratch.of(user).put(command.stdin)
        if len(text) > LONG_COMMAND and env.shells.dialect is not Bash:
            command_file = await env.scratch.of(user).put(text.encode("utf-8", "surrogateescape"))
            text = ""
        apart = command.separate if separate is None else separate
        return ShellRequest(
            text, where, command.cwd, command.env, stdin_file, apart, exports, command_file, command.functions
        )

    def output_limit(self, command: CheckedCommand) -> int:
        """Return the count of a command's output bytes to keep."""
        return command.max_output_bytes or self._settings.max_output_bytes

    async def complete(self, outcome: Outcome, command: CheckedCommand, running: Running) -> None:
        """Add the backend's notes to an outcome, and record leftover processes for the caller's scope."""
        is_killed = outcome.exit_code == KILLED_EXIT_CODE and not outcome.reason
        if is_killed and (why := await call_backend(self._env.why_killed)):
            outcome.notes.append(why)
        if not command.is_internal and self._env.network and (note := self._env.network.pop_note()):
            outcome.notes.append(note)
        if not command.is_internal and (scope := self._scope_processes()):
            await scope.add_command(running)

    def _scope_processes(self) -> ScopeProcesses | None:
        """Return the record of processes for the caller's scope, if the scope is a script's."""
        scope = current_scope()
        if scope is None or scope.is_trusted:
            return None
        from environments.shell.scope_processes import ScopeProcesses  # most commands run outside of a script

        return scope.scope_processes(self._env.id, lambda: ScopeProcesses(self._env.shells))


def _interruptible_start(command: CheckedCommand) -> AbstractContextManager[object]:
    """End the wait for a target's start when the command is interrupted."""
    interrupt = command.interrupt
    return start_limit(math.inf, interrupted=interrupt.is_set) if interrupt else contextlib.nullcontext()


def _ended(outcome: Outcome | CommandResult, command: CheckedCommand) -> Ended:
    return (lambda: outcome) if isinstance(outcome, CommandResult) else partial(outcome.result, command.binary)
