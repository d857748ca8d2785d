"""An environment that reaches its target through shells: what a backend answers, and what follows from that."""

from __future__ import annotations

import itertools
import os
import sys
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from environments.base import BaseEnvironment
from environments.errors import UnsupportedError
from environments.loop import Call, current, on_loop, run, waits_for
from environments.network.setting import network_argument
from environments.owner import Owner
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell import snapshots
from environments.shell.cleanup import end_all, renew
from environments.shell.commands import Commands
from environments.shell.dialect.commands import TELL_TIME, making_scratch
from environments.shell.lifecycle import Lifecycle, Stage
from environments.shell.oneshot import OneshotRunner
from environments.shell.pool import CONTROL_LIMIT, Shells, opened
from environments.shell.rescue import printed
from environments.shell.session import NamedSession, Session
from environments.shell.stream import BlockingStream, Stream, Terminal
from environments.shell.users import Scratch, TargetUser, find_user, made_of

if TYPE_CHECKING:
    from environments.shell.files import ShellFiles
    from environments.shell.network import TargetNetwork
    from environments.target import Address, Target

T = TypeVar("T")


class PersistentShellEnvironment(BaseEnvironment):
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
    ends_with_program: ClassVar[bool] = False
    """Whether a shell there ends what runs when its input comes to an end, as with this program."""
    has_other_way: ClassVar[bool] = False
    """Whether `run_in_rescue` needs nothing that a stream is opened over."""
    has_rescuer: ClassVar[bool] = False
    """Whether `run_in_rescue` starts no process in the target."""
    can_hunt: ClassVar[bool] = False
    """Whether `hunt` does anything."""
    target_stays: ClassVar[bool] = False
    """Whether the target is the same after every loss, such as a host to which the link was dropped."""
    has_snapshots: ClassVar[bool] = False
    """True if `take_snapshot` and `drop_snapshot` are implemented."""
    proxies_network: ClassVar[bool] = False
    """Whether a `network` setting that is a list is held by a proxy, as the target then has no network of its own."""
    more_pythons: ClassVar[Sequence[str]] = ()
    """Paths of Pythons in the target that are at no usual place."""
    internal: Commands

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        hosts = getattr(settings.own, "network", None)
        self.network = self._network_of(hosts) if self.proxies_network and isinstance(hosts, tuple) else None
        """Holds the target to the hosts that the settings list; None where they list none."""
        self.life = Lifecycle(self, settings.env, stays=self.target_stays, reporter=self.progress)
        self.shells: Shells = Shells(self, self.life)
        self.scratch = Scratch(self)
        self.internal = Commands(self)
        self.session_of_execute = Session(self, self.shells)
        self.oneshots = OneshotRunner(self, self.shells)
        self.named: set[Session] = set()
        """The sessions that have a name, and are open."""
        self.session_numbers: Iterator[int] = itertools.count(1)
        self.ready_since: int | None = None
        """When it was first ready, on the target's clock, see `Quarry.since`."""
        self.forked_from: str | None = None
        """The snapshot that was taken for this environment alone, see `fork`."""

    def _network_of(self, hosts: Sequence[str]) -> TargetNetwork:
        from environments.shell.network import TargetNetwork  # most have no list

        network = TargetNetwork(self, hosts)
        self.passthrough.fixed = network.variables
        return network

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

    def found_bash(self) -> None:
        """Note that a shell of the target's own user has turned out to be a bash that has all that is needed."""

    def find_user(self, user: str) -> TargetUser:
        """Look for a user of the target, and for a way to become that user.

        Args:
            user: A name or a number.

        Raises:
            UnsupportedError: There is no such user, or no way.
        """
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

    @property
    def link_may_drop(self) -> bool:
        """Whether the end of a stream may be that of the link alone, and what it led to goes on.

        A shell that ends what runs with this program then waits until this could have told it so.
        """
        return self.target_stays

    def has_no_process(self, marker: str, but: Collection[int]) -> Awaitable[bool] | bool:
        """Whether it is certain, without asking in the target, that no process but some there has a marker.

        For that of the whole environment, that none has its number either, see `dialect.commands.branding`.
        """
        return False

    def hunt(self, marker: str, brand: str | None) -> None:
        """End what forks and exits without end, so that no look through a shell of the target finds it.

        Args:
            marker: The value of its marker variable, or a part of it; any of several, if these stand in lines.
            brand: Its number, or a pattern for numbers, see `dialect.commands.branding`.
        """

    def newcomers(self, brand: int | None) -> Callable[[str], Awaitable[bool]] | None:
        """Return what says, for a command that begins now, whether a process may have its marker or its number.

        None if that has to be asked in the target.

        Args:
            brand: The number, see `dialect.commands.branding`; None if it has none.
        """
        return None

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
        from environments.target import Target  # most never ask for it

        return Target(self.settings.env, "machine", "")

    def find_address(self, port: int) -> Address:
        """Do what `address` describes, for a port that there may be. A backend that can reach ports overrides it."""
        raise UnsupportedError(
            f"backend {self.settings.env!r} has no way to a port of its target; use one that has, or reach port {port} "
            "by a command in the target"
        )

    def why_killed(self) -> Awaitable[str | None] | str | None:
        """Say which limit of the target has ended a process since this was asked last, or None if none has.

        Asked when something ended with exit code 137. A backend that can tell overrides it.
        """
        return None

    def take_snapshot(self, name: str | None) -> Awaitable[str] | str:
        """Keep the target's files as they are, and return the image, see `BaseEnvironment.snapshot`.

        Called once the target is up. It goes to its end if its caller is interrupted.

        Args:
            name: The checked name; None is a snapshot for one fork, which `drop_snapshot` removes in the end. Its
                labels have to say so, and name the process that it is for, so that `gc` can remove it.

        Raises:
            UnsupportedError: There is none of this target.
            TerminalError: It could not be taken.
        """
        raise NotImplementedError

    def drop_snapshot(self, snapshot: str) -> Awaitable[None] | None:
        """Remove a snapshot that was taken for a fork, if it is there. Called on the fork once its target is gone.

        Raises:
            TerminalError: It could not be removed.
        """
        raise NotImplementedError

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        """Return the settings of this environment with a snapshot as the image of its target."""
        own: Any = self.settings.own
        hosts = {"network": self.network.hosts} if self.network else {}
        return replace(self.settings, own=replace(own, image=snapshot, **hosts))

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the resource settings that the target enforces."""
        return self.settings_class.of(self.settings).enforces

    @cached_property
    def files(self) -> ShellFiles:
        """What moves files and looks at entries. A backend may have something better."""
        from environments.shell.files import ShellFiles  # most commands need no file
        from environments.shell.transfer import Runner

        return ShellFiles(Runner(self), self.settings.env, self.progress)

    # The interface.

    @property
    @on_loop
    async def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        await self.session_of_execute.variable("PWD", sourced=False)  # which opens a shell
        dialect = self.shells.dialect
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=dialect.name if dialect else "",
            enforced_limits=self.enforced_limits,
        )

    @property
    def target(self) -> Target:
        """What and where the target is, see `BaseEnvironment`."""
        cwd = self.cwd  # which has the first shell opened
        self.ensure_started()
        return self.describe_target(cwd)

    def address(self, port: int) -> Address:
        """Return where a port of the target can be reached, see `BaseEnvironment`."""
        from environments.target import checked_port  # most never ask for one

        return self.find_address(checked_port(port))

    @property
    def busy(self) -> bool:
        """Whether something runs, see `BaseEnvironment`."""
        sessions = (self.session_of_execute, *self.named)
        return bool(self.oneshots.running or self.internal.processes) or any(each.busy for each in sessions)

    @property
    @on_loop
    async def cwd(self) -> str:
        """The session's working directory, see `BaseEnvironment`."""
        return await self.session_of_execute.variable("PWD", sourced=False)

    def _new_session(self, name: str, cwd: str | None, user: str | None) -> NamedSession:
        self.life.check()
        return NamedSession(name, self, cwd, user)

    def interrupt(self) -> None:
        """End the command `execute` is running, or the start that it waits for, see `BaseEnvironment`."""
        self.life.check_process()
        current().soon(self._interrupt)

    def _interrupt(self) -> None:
        self.life.stop_start("it was interrupted")
        self.session_of_execute.interrupt()

    @on_loop
    async def prepare(self) -> None:
        """Start the target, and open the session and what ends its commands, see `BaseEnvironment`."""
        await self.life.ensure_started()
        if self.network:
            await self.network.ensure()
        self.command_sent()  # which goes on beside the opening of the session
        await self.session_of_execute.variable("PWD")
        await self.shells.control.await_reserve()
        if self.ready_since is None and self.is_alone:
            from environments.shell.process_table import parse_time  # few have a target to themselves

            # Asked for here, as a time of ours is not exact enough on a loaded machine for what ran just before it.
            self.ready_since = parse_time((await self.ran_internal(TELL_TIME))[0])

    @property
    def is_ready(self) -> bool:
        """Whether the session's shell is still there, as far as its stream tells, see `BaseEnvironment`."""
        return self.life.is_ours and self.life.stage is Stage.STARTED and self.session_of_execute.is_ready

    @on_loop
    async def set_network(self, network: str | Sequence[str]) -> None:
        """Change the list of hosts that can be reached, see `BaseEnvironment`."""
        hosts = network_argument(network)
        self.life.check()
        if self.network:
            self.network.set(hosts)
        elif self.proxies_network:
            raise UnsupportedError(
                f"backend {self.settings.env!r}: this environment was made without a list of hosts, so that it cannot "
                f"be given another; make it with network as a list, which may be empty"
            )
        else:
            super().set_network(hosts)

    def renew(self) -> None:
        """End all that was started, and have the next command begin a new session, see `BaseEnvironment`."""
        self.life.check()
        self.close_sessions()
        self.run_on_loop(lambda _: renew(self))
        self.attachments.renew()
        self.passthrough.renew()

    @on_loop
    async def snapshot(self, name: str) -> str:
        """Keep the target's files, see `BaseEnvironment`."""
        return await snapshots.take(self, name)

    async def _fork(self, call: Call[BaseEnvironment] | None) -> BaseEnvironment:
        self.check_process()
        return await snapshots.fork(self, call)

    @waits_for(_fork)
    def fork(self) -> BaseEnvironment:
        """Return an environment on a copy of the target, see `BaseEnvironment`."""
        return self.run_on_loop(self._fork)

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

    async def _end_all(self) -> None:
        try:
            if self.life.generation:
                await end_all(self)
        finally:
            await snapshots.drop_own(self)

    def __del__(self, is_at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_at_end() and (life := getattr(self, "life", None)):  # there, names of modules may be gone
            life.abandoned(self)

    # What backends and our own parts ask.

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        self.life.check_process()

    def run_on_loop(self, work: Callable[[Call[T]], Awaitable[T]]) -> T:
        """Have the loop thread run a coroutine, and wait for it."""
        self.life.check_process()
        return run(work)

    def ensure_started(self) -> int:
        """Start the target unless it is up, and return how many targets there have been.

        Raises:
            TerminalError: It could not be started, or the environment was cleaned up.
        """
        return self.run_on_loop(lambda _: self.life.ensure_started())

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

    async def ran_internal(self, text: str, timeout: float = CONTROL_LIMIT) -> tuple[str, int]:
        """Run a command of our own, and return what it prints and its exit code, see `run_control`."""
        return await self.shells.control.ran(text, timeout)

    def command_sent(self) -> None:
        """Have what ends commands ready, now that there is one that may have to be ended."""
        self.shells.control.reserve()

    @property
    def has_scratch(self) -> bool:
        """Whether there is a private directory of ours in the target, which may be in something that outlives it."""
        return self.scratch.is_there

    async def make_scratch(self, name: str) -> str:
        """Make a private directory of a name in the target, and return its path.

        Raises:
            TerminalError: It could not be made.
        """
        return made_of(self.settings.env, *await self.ran_internal(making_scratch(name)))

    async def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file into that directory, for the target's user alone."""
        await self.files.write(path, data, "600")
