"""An environment that reaches its target through shells: what a backend answers, and what follows from that."""

from __future__ import annotations

import contextlib
import math
import os
import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from environments.base import BaseEnvironment
from environments.cancellation import current_scope, start_limit
from environments.errors import TerminalError
from environments.log import logger
from environments.loop import Call, current, done_within, in_worker, on_loop, run, waits_for
from environments.options import Command
from environments.owner import Owner
from environments.process import GRACE
from environments.result import KILLED_EXIT_CODE, Capabilities, CommandResult
from environments.session import EnvironmentSession
from environments.settings import EnvironmentSettings
from environments.shell.dialect.bash import Bash
from environments.shell.dialect.commands import TELL_TIME, making_scratch
from environments.shell.file_methods import FileMethods
from environments.shell.lifecycle import Lifecycle, Stage, answered
from environments.shell.oneshot import OneshotRunner, Write
from environments.shell.output import Outcome, Teller
from environments.shell.pool import CONTROL_LIMIT, Ending, Shells, opened
from environments.shell.request import Request, Where
from environments.shell.rescue import printed
from environments.shell.run import Running
from environments.shell.scratch import Scratch, made_of
from environments.shell.session import Session
from environments.shell.stream import BlockingStream, Stream, Terminal

if TYPE_CHECKING:
    from environments.output import Sink
    from environments.process import Background, Process
    from environments.shell.process import Processes, ShellProcess
    from environments.shell.scope_processes import ScopeProcesses
    from environments.shell.target_user import TargetUser
    from environments.target import Target

T = TypeVar("T")
LONG_COMMAND = 32 * 1024
"""Characters above which a command travels as a file, to a shell that can only read it piece by piece."""
_NO_EXPORTS: Mapping[str, str] = {}

log = logger(__name__)


class PersistentShellEnvironment(FileMethods, BaseEnvironment):
    """Everything but the target: a backend says how to start it, open a stream to it, and stop it.

    A public method checks its arguments and has the loop thread run one coroutine. A command goes to the session, to a
    shell and to that shell's stream, and its result comes up the same way; a one-shot goes to a shell of the pool.

    The methods that a backend implements may be coroutine functions, which are awaited on the loop thread, or plain
    functions, which run on a worker thread and may block.
    """

    same_machine = False
    """Whether the target shares this machine's files, sockets and processes."""
    max_streams: int | None = None
    """How many streams the target allows at once; None is as many as asked for."""
    streams_lag = False
    """Whether what a process printed may arrive after a later request was sent."""
    has_reserve: ClassVar[bool] = True
    """Whether a shell waits in the target for what has to be done when no process can be started there."""
    ends_with_program = False
    """Whether a shell there ends what runs when its input comes to an end, as with this program. Where only the link to
    a target that stays may have dropped, it waits until this program could have told it so."""
    has_other_way: ClassVar[bool] = False
    """Whether `run_in_rescue` needs nothing that a stream is opened over."""
    has_rescuer: ClassVar[bool] = False
    """Whether `run_in_rescue` starts no process in the target."""
    target_stays: ClassVar[bool] = False
    """Whether the target is the same after every loss, such as a host to which the link was dropped."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        self.life = Lifecycle(self, settings.env, stays=self.target_stays, reporter=self.progress)
        self.shells = Shells(self, self.life)
        self.scratch = Scratch(self)
        self._scratch_of_users: dict[TargetUser, Scratch] = {}
        self.session_of_execute = Session(self, self.shells)
        self.oneshots = OneshotRunner(self, self.shells)
        self._processes: Processes | None = None
        self.internal = Internal(self)
        self._named: set[Session] = set()
        self._named_count = 0
        self._users: dict[str, TargetUser] = {}
        self._users_generation = 0
        self._prepared: int | None = None
        """When it was first ready, on the target's clock, see `Quarry.since`."""

    # What a backend answers.

    @abstractmethod
    def start_target(self) -> Awaitable[None] | None:
        """Bring the target up, so that streams can be opened.

        Called before anything else, and again after a loss: then what is left of the old target is to be freed, and
        a new link made, or a new target where the old one is gone. What it waits for can be broken off by
        `current_start()`; an error leaves nothing behind that was not there before.

        Raises:
            EnvironmentStartError: It cannot be brought up.
        """

    @abstractmethod
    def open_stream(
        self, argv: Sequence[str], terminal: Terminal | None = None
    ) -> Stream | BlockingStream | Awaitable[Stream]:
        """Start a process in the target, and return its streams.

        Args:
            argv: The program and its arguments, which other users of the target may be able to see.
            terminal: The size of a terminal to give it; None is pipes.

        Raises:
            EnvironmentStartError: The process could not be started.
        """

    def find_user(self, user: str) -> TargetUser:
        """Look for a user of the target, and for a way to become that user.

        Args:
            user: A name or a number.

        Raises:
            UnsupportedError: There is no such user, or no way.
        """
        from environments.shell.target_user import find_user  # most commands run as the target's own user

        return find_user(user, self.run_control, self.settings.env)

    def open_stream_as(
        self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None
    ) -> Stream | BlockingStream | Awaitable[Stream]:
        """Start a process in the target as another user than its own, see `open_stream`."""
        return self.open_stream(user.becoming(argv), terminal)

    @abstractmethod
    def stop_target(self) -> Awaitable[None] | None:
        """Take the target down and free what it holds here. Called once, also when the target is lost."""

    @property
    def stop_ends_all(self) -> bool:
        """Whether `stop_target` leaves no process and no file, so that `cleanup` need not look for them before."""
        return False

    @property
    def is_alone(self) -> bool:
        """Whether no process that can be seen in the target is anybody else's, so that all may be stopped at once."""
        return False

    def has_no_process(self, marker: str, but: Collection[int]) -> bool:
        """Whether it is certain, without asking in the target, that no process but some there has a marker."""
        return False

    def run_in_rescue(self, text: str) -> Awaitable[str] | str:
        """Run shell text of builtins where nothing in the target stands in the way, and return what it prints.

        Called for shells that do not answer, as a command may have stopped all processes that it can.

        Raises:
            TerminalError: There is no answer.
        """
        return self._in_new_process(text)

    async def _in_new_process(self, text: str) -> str:
        return await printed(await opened(self.open_stream, ["/bin/sh", "-c", text]))

    def target_loss(self) -> Awaitable[str | None] | str | None:
        """Say why the target is gone, or None while it is there. Asked when a stream ended unexpectedly."""
        return None

    def describe_target(self, cwd: str) -> Target:
        """Say what the target is, once it is up, see `Target`; a backend's name alone, if not overridden.

        Args:
            cwd: The session's working directory, where a person who enters would like to begin.
        """
        return super().find_target()

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the resource settings that the target enforces."""
        return self.settings_class.of(self.settings).enforces

    # The interface.

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        self.run_on_loop(lambda _: self.session_of_execute.variable("PWD", sourced=False))  # which opens a shell
        dialect = self.shells.dialect
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=dialect.name if dialect else "",
            enforced_limits=self.enforced_limits,
        )

    def find_target(self) -> Target:
        """Say what the target is, see `BaseEnvironment.target`."""
        cwd = self.cwd  # which has the first shell opened
        self.ensure_started()
        return self.describe_target(cwd)

    @property
    def busy(self) -> bool:
        """Whether something runs, see `BaseEnvironment`."""
        sessions = (self.session_of_execute, *self._named)
        return bool(self.oneshots.running or self.running_processes) or any(each.busy for each in sessions)

    @property
    @on_loop
    async def cwd(self) -> str:
        """The session's working directory, see `BaseEnvironment`."""
        return await self.session_of_execute.variable("PWD", sourced=False)

    def ensure_started(self) -> int:
        """Start the target unless it is up, and return how many targets there have been.

        Raises:
            TerminalError: It could not be started, or the environment was cleaned up.
        """
        return self.run_on_loop(lambda _: self.life.ensure_started())

    @on_loop
    async def session_variable(self, name: str) -> str:
        """Return one of the `WATCHED` variables as the session's last command left it; empty if it is not set."""
        return await self.session_of_execute.variable(name)

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        self.life.check_process()

    def run_on_loop(self, work: Callable[[Call[T]], Awaitable[T]]) -> T:
        """Have the loop thread run a coroutine, and wait for it."""
        self.life.check_process()
        return run(work)

    async def execute_in_session(self, call: Call[Any], command: Command) -> Outcome | CommandResult:
        """Do what `run_in_session` waits for."""
        return await self.execute_in(self.session_of_execute, call, command)

    async def execute_in(self, session: Session, call: Call[Any], command: Command) -> Outcome | CommandResult:
        """Run a command in one of the sessions."""
        self.check_process()
        session.check_outside(call, "execute")
        session.use(await self.ready(command.user))
        return await session.execute(call, command)

    @waits_for(execute_in_session)
    def run_in_session(self, command: Command) -> CommandResult:
        """Run a command in the session, see `BaseEnvironment.execute`."""
        return self.result_of(command, lambda call: self.execute_in_session(call, command))

    async def execute_beside(self, call: Call[Any], command: Command) -> Outcome | CommandResult:
        """Do what `run_beside` waits for."""
        self.check_process()
        user = await self.ready(command.user)
        self.command_sent()
        return await self.oneshots.execute(command, user, call.pieces)

    @waits_for(execute_beside)
    def run_beside(self, command: Command) -> CommandResult:
        """Run a command beside the session, see `BaseEnvironment.execute_oneshot`."""
        return self.result_of(command, lambda call: self.execute_beside(call, command))

    def result_of(
        self, command: Command, work: Callable[[Call[Any]], Awaitable[Outcome | CommandResult]]
    ) -> CommandResult:
        """Have the loop thread run a command, and call its callback here."""
        self.check_process()
        teller = Teller(command.on_output, command.binary) if command.on_output else None
        try:
            outcome = run(work, teller)
            if teller:
                teller.finish()
        finally:
            self.touch()
        return outcome if isinstance(outcome, CommandResult) else outcome.result(command.binary)

    async def start_process(self, call: Call[ShellProcess], command: Command, background: Background) -> ShellProcess:
        """Do what `run_in_background` waits for."""
        self.check_process()
        user = await self.ready(command.user)
        self.command_sent()
        process = await self.processes.start(call, command, background, user)
        if not command.is_own and (scope := self._scope_processes()):
            scope.add_process(process)
        return process

    @waits_for(start_process)
    def run_in_background(self, command: Command, background: Background) -> Process:
        """Start a command in the background, see `BaseEnvironment.start`."""
        return self.run_on_loop(lambda call: self.start_process(call, command, background))

    def run_control(self, text: str, timeout: float = CONTROL_LIMIT) -> CommandResult:
        """Run a command of our own: without the limits of `max_streams`, the settings or a cancelled scope.

        Args:
            text: Shell text.
            timeout: Seconds by which it must have ended.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        output, code = self.run_on_loop(lambda _: self.ran_internal(text, timeout))
        return CommandResult(output, code)

    def open_session(self, name: str, cwd: str | None, user: str | None) -> EnvironmentSession:
        """Make a session beside that of `execute`, see `Sessions`."""
        self.life.check()
        return EnvironmentSession(name, self, NamedSession(self, cwd, user), cwd or self.settings.cwd, user)

    def new_session(self, cwd: str | None) -> Session:
        """Make a session, whose shells have markers of their own."""
        self._named_count += 1
        made = Session(self, self.shells, f"s{self._named_count}.", cwd)
        self._named.add(made)
        return made

    def close_session(self, session: Session) -> None:
        """End all that was started in a session. A forked child ends nothing of its parent's."""
        if self.life.is_ours:
            self.run_on_loop(lambda call: self._close_session(call, session))

    async def _close_session(self, call: Call[Any], session: Session) -> None:
        session.check_outside(call, "close")
        began = session.began
        pid = session.shell_pid
        await session.close()
        self._named.discard(session)
        if not (session.variables and self.life.is_open and self.shells.dialect):
            return
        from environments.shell.kill import Quarry  # most programs need no second session

        quarry = Quarry(self.shells.markers(session.word), self.shells.dialect, pid, ends_shell=True, began=began)
        with contextlib.suppress(TerminalError):
            if survivors := await session.ending.tree(quarry).end(GRACE):
                log.warning("processes of a session could not be ended: %s", survivors)

    def interrupt(self) -> None:
        """End the command `execute` is running, or the start that it waits for, see `BaseEnvironment`."""
        self.life.check_process()
        current().soon(self._interrupt)

    def _interrupt(self) -> None:
        self.life.stop_start("it was interrupted")
        self.session_of_execute.interrupt()

    # On the loop: what the parts ask.

    @property
    def processes(self) -> Processes:
        """What starts commands in the background."""
        if self._processes is None:
            from environments.shell.process import Processes  # most commands are waited for

            self._processes = Processes(self, self.shells)
        return self._processes

    @property
    def running_processes(self) -> list[ShellProcess]:
        """The commands that run in the background."""
        return list(self._processes.running) if self._processes else []

    async def ready(self, user: str | None) -> TargetUser | None:
        """Start the target unless it is up, and find the user that a command runs as.

        Raises:
            UnsupportedError: There is no such user, or no way to become that user.
        """
        generation = await self.life.ensure_started()
        found = None
        if user is not None:
            if generation != self._users_generation:
                self._users, self._users_generation = {}, generation
            found = self._users.get(user)
            if found is None:
                found = self._users[user] = await answered(self.find_user, user)
        if self.is_alone:  # no command but the first begins before that is there which ends it
            await self.shells.control.await_reserve()
        return found

    async def requested(
        self,
        command: Command,
        where: Where,
        exports: Mapping[str, str] = _NO_EXPORTS,
        separate: bool | None = None,
        user: TargetUser | None = None,
    ) -> Request:
        """Return the request for a command. Its input, and a long text, are put into files of the user's."""
        text, stdin_file, command_file = command.text, None, None
        if command.stdin:
            stdin_file = await self._scratch_of(user).put(command.stdin)
        if len(text) > LONG_COMMAND and self.shells.dialect is not Bash:
            command_file = await self._scratch_of(user).put(text.encode("utf-8", "surrogateescape"))
            text = ""
        apart = command.separate if separate is None else separate
        return Request(text, where, command.cwd, command.env, stdin_file, apart, exports, command_file)

    def _scratch_of(self, user: TargetUser | None) -> Scratch:
        if user is None:
            return self.scratch
        return self._scratch_of_users.setdefault(user, Scratch(self, user))

    async def _remove_scratch(self) -> None:
        for scratch in (*self._scratch_of_users.values(), self.scratch):
            await scratch.remove()

    def output_limit(self, command: Command) -> int:
        """Return how many bytes of a command's output are kept."""
        return command.max_output_bytes or self.settings.max_output_bytes

    def command_sent(self) -> None:
        """Have what ends commands ready, now that there is one that may have to be ended."""
        self.shells.control.reserve()

    async def complete(self, outcome: Outcome, command: Command, running: Running) -> None:
        """Add to an outcome what the backend knows, and note what the command has left for its caller's scope."""
        if outcome.exit_code == KILLED_EXIT_CODE and not outcome.reason and (why := await answered(self.why_killed)):
            outcome.notes.append(why)
        if not command.is_own and (scope := self._scope_processes()):
            await scope.add_command(running)

    def _scope_processes(self) -> ScopeProcesses | None:
        """Return what notes the processes of the caller's scope, if it is a script's."""
        scope = current_scope()
        if scope is None or scope.is_trusted:
            return None
        from environments.shell.scope_processes import ScopeProcesses  # most commands are no script's

        return scope.remains(self.id, lambda: ScopeProcesses(self.shells))

    async def ran_internal(self, text: str, timeout: float = CONTROL_LIMIT) -> tuple[str, int]:
        """Run a command of our own, and return what it prints and its exit code, see `run_control`."""
        return await self.shells.control.ran(text, timeout)

    # Ready ahead, and used anew.

    @on_loop
    async def prepare(self) -> None:
        """Start the target, and open the session and what ends its commands, see `BaseEnvironment`."""
        await self.life.ensure_started()
        self.command_sent()  # which goes on beside the opening of the session
        await self.session_of_execute.variable("PWD")
        await self.shells.control.await_reserve()
        if self._prepared is None and self.is_alone:
            from environments.shell.process_table import parse_time  # few have a target to themselves

            # Asked for here, as a time of ours is not exact enough on a loaded machine for what ran just before it.
            self._prepared = parse_time((await self.ran_internal(TELL_TIME))[0])

    @property
    def is_ready(self) -> bool:
        """Whether the session's shell is still there, as far as its stream tells, see `BaseEnvironment`."""
        return self.life.is_ours and self.life.stage is Stage.STARTED and self.session_of_execute.is_ready

    @property
    def has_scratch(self) -> bool:
        """Whether there is a private directory of ours in the target, which may be in something that outlives it."""
        return any(scratch.made for scratch in (self.scratch, *self._scratch_of_users.values()))

    def renew(self) -> None:
        """End all that was started, and have the next command begin a new session, see `BaseEnvironment`."""
        self.life.check()
        self.close_sessions()
        self.run_on_loop(lambda _: self._renew())
        self.attachments.renew()
        self.passthrough.renew()

    async def _renew(self) -> None:
        self._abandon_all()
        earlier, self.session_of_execute = self.session_of_execute, Session(self, self.shells)
        await self._remove_scratch()
        spare = self.shells.control.idle[-1:]  # the one that is taken next: any other would be waited for
        await self.shells.end_all(but=spare)
        if survivors := await self._end_processes([shell.pid for shell in spare], self._prepared, takes_strays=True):
            raise TerminalError(f"processes of an earlier use could not be ended: {survivors}")
        await earlier.close()

    # The end.

    async def _cleanup(self, _: Call[Any]) -> None:
        if self.life.is_ours:
            await self.close()

    @waits_for(_cleanup)
    def cleanup(self) -> None:
        """End everything, see `BaseEnvironment`."""
        if self.life.is_ours:
            run(self._cleanup)

    async def close(self) -> None:
        """End everything. All that call this wait for one end, which goes on whatever becomes of them."""
        await self._file_calls.end()
        await self.life.close(self._end_all)

    def _abandon_all(self) -> None:
        """Take all that runs for interrupted, as everything is about to be ended."""
        sessions = (self.session_of_execute, *self._named)
        for running in (*(each.running for each in sessions), *self.oneshots.running):
            if running:
                running.abandon()
        for process in self.running_processes:
            process.running_command.abandon()

    async def _end_all(self) -> None:
        control = self.shells.control
        control.give_up_reserve()
        self._abandon_all()
        try:
            if not self.stop_ends_all:
                with contextlib.suppress(TerminalError):
                    await self._remove_scratch()
                    spare = control.idle[-1:]  # the one that is taken next: any other would be waited for
                    await self.shells.end_all(but=spare)
                    if survivors := await self._end_processes([shell.pid for shell in spare]):
                        log.warning("backend %r: processes could not be ended: %s", self.settings.env, survivors)
        finally:
            await self._close()
        await in_worker(self.attachments.close)

    async def _end_processes(
        self, but: Collection[int], since: int | None = None, takes_strays: bool = False
    ) -> tuple[int, ...]:
        """End all processes of the environment, and return those that could not be ended."""
        dialect = self.shells.dialect
        if dialect is None:
            return ()
        from environments.shell.kill import Quarry  # most commands end by themselves

        for user in self.shells.users():
            await Ending(self.shells, user).tree(Quarry(f"{self.id}/", dialect)).end(GRACE)
        if await answered(self.has_no_process, f"{self.id}/", but):
            return ()
        # What `service` or `su -` starts sheds its environment, and all marks of ours.
        quarry = Quarry(f"{self.id}/", dialect, since=since, takes_strays=takes_strays)
        return await Ending(self.shells).tree(quarry).end(GRACE)

    def end_processes_of(self, owner: str) -> None:
        """End the processes in this target of an environment whose process was killed.

        Args:
            owner: The name of that environment.
        """

        async def work(_: Call[Any]) -> None:
            from environments.shell.kill import Quarry  # few look for what others have left

            await Ending(self.shells).tree(Quarry(f"{owner}/", Bash)).end(GRACE)

        self.run_on_loop(work)

    async def _close(self) -> None:
        """Free what is held here, and take the target down."""
        shells, processes = self.shells, self.running_processes
        try:
            await shells.control.await_reserve()
            shells.forget()
            await shells.end_all()
            for session in (self.session_of_execute, *self._named):
                await session.close()
            await shells.end_all()  # also one that was being opened, to set apart what a command had left
        finally:
            await answered(self.stop_target)
        for process in processes:
            await done_within(process.done, GRACE)

    def __del__(self) -> None:
        if life := getattr(self, "life", None):
            life.abandoned(self)

    # Our private directory.

    @on_loop
    async def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use."""
        return await self.scratch.directory()

    def put_scratch(self, data: bytes) -> str:
        """Write a file that only the target's user can read into that directory, and return its path."""
        return self.run_on_loop(lambda _: self.scratch.put(data))

    async def make_scratch(self, name: str) -> str:
        """Make a private directory of a name in the target, and return its path.

        Raises:
            TerminalError: It could not be made.
        """
        return made_of(self.settings.env, *await self.ran_internal(making_scratch(name)))

    async def write_as(self, user: str, path: str, data: bytes) -> None:
        """Write a file of ours as a user of the target, for that user alone."""
        from environments.shell.files import ShellFiles  # most commands need no file

        await ShellFiles(Internal(self, user), self.settings.env).write(path, data, "600")

    async def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file into that directory, for the target's user alone."""
        await self.files.write(path, data, "600")


class NamedSession:
    """A session beside that of `execute`, see `SessionBackend`.

    Args:
        env: The environment.
        cwd: The directory to begin in; None is as the settings say.
        user: The user that its shells run as.
    """

    def __init__(self, env: PersistentShellEnvironment, cwd: str | None, user: str | None) -> None:
        self._env, self._user = env, user
        self._session = env.new_session(cwd)
        self._interrupts = 0

    def check_process(self) -> None:
        """Raise TerminalError if the session belongs to another process."""
        self._env.check_process()

    @property
    @on_loop
    async def cwd(self) -> str:
        """Its working directory, see `SessionBackend`."""
        self._session.use(await self._env.ready(self._user))
        return await self._session.variable("PWD")

    @property
    def busy(self) -> bool:
        """Whether a command has its turn, see `SessionBackend`."""
        return self._session.busy

    async def _run(self, call: Call[Any], command: Command) -> Outcome | CommandResult:
        before = self._interrupts
        with start_limit(math.inf, interrupted=lambda: self._interrupts != before):
            return await self._env.execute_in(self._session, call, command)

    @waits_for(_run)
    def run(self, command: Command) -> CommandResult:
        """Run a command, see `SessionBackend`."""
        return self._env.result_of(command, lambda call: self._run(call, command))

    def interrupt(self) -> None:
        """End the command that runs or waits for the target to start, see `SessionBackend`."""
        self._env.life.check_process()
        self._interrupts += 1
        current().soon(self._session.interrupt)

    def end(self) -> None:
        """End all that was started in it, see `SessionBackend`."""
        self._interrupts += 1
        self._env.close_session(self._session)


class Internal:
    """Runs commands of our own where the files of the target are, see `transfer.Runner`.

    Args:
        env: The environment.
        user: The user that they run as; None is the target's own.
    """

    def __init__(self, env: PersistentShellEnvironment, user: str | None = None) -> None:
        self._env = weakref.proxy(env)
        self._user = user

    async def run(self, command: Command) -> CommandResult:
        """Run a command and return its result, see `Runner`."""
        env = self._env
        user = await self.ready()
        outcome: Outcome | CommandResult = await env.oneshots.execute(command._replace(is_own=True), user)
        return outcome if isinstance(outcome, CommandResult) else outcome.result(command.binary)

    async def run_into(self, command: Command, sink_on: Callable[[Stream], Sink]) -> int:
        """Run a command without limits, see `Runner`."""
        await self.ready()
        code: int = await self._env.oneshots.run_into(command._replace(is_own=True), sink_on)
        return code

    async def run_fed(
        self, command: Command, where: Where, sink: Sink, feed: Callable[[Write], Awaitable[object]]
    ) -> int:
        """Run a command that reads an input, see `Runner`."""
        user = await self.ready()
        code: int = await self._env.oneshots.run_fed(command._replace(is_own=True), user, where, sink, feed)
        return code

    async def ready(self) -> TargetUser | None:
        """Start the target unless it is up, and return the user, see `Runner`."""
        env = self._env
        env.check_process()
        user: TargetUser | None = await env.ready(self._user)
        env.command_sent()
        return user
