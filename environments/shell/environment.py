"""Base of environments with shells: the methods of a backend, and the interface built on them."""

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
from environments.shell.users import Scratch, TargetUser, find_user, scratch_path_of

if TYPE_CHECKING:
    from environments.shell.files import ShellFiles
    from environments.shell.network import TargetNetwork
    from environments.target import Address, Target

T = TypeVar("T")


class PersistentShellEnvironment(BaseEnvironment):
    """An environment reached through shells. A backend starts the target, opens streams to it, and stops it.

    A public method checks its arguments and runs one coroutine on the loop thread. A command goes to the session, to a
    shell and to the shell's stream, and the result returns the same way; a one-shot goes to a shell of the pool.

    A backend's methods may be coroutine functions, awaited on the loop thread, or plain functions, run on a worker
    thread and allowed to block.
    """

    same_machine = False
    """True if the target shares this machine's files, sockets and processes."""
    max_streams: int | None = None
    """The count of streams allowed at once by the target; None is unlimited."""
    streams_lag = False
    """True if a process's output may arrive after a later request was sent."""
    has_reserve: ClassVar[bool] = True
    """True if a reserve shell waits in the target for use when no process can be started there."""
    has_watchdog: ClassVar[bool] = False
    """True if a watchdog shell in the target ends all processes when this program dies."""
    has_other_way: ClassVar[bool] = False
    """True if `run_in_rescue` is independent of the streams' link."""
    has_rescuer: ClassVar[bool] = False
    """True if `run_in_rescue` starts no process in the target."""
    can_hunt: ClassVar[bool] = False
    """True if `hunt` is implemented."""
    target_stays: ClassVar[bool] = False
    """True if the target stays the same after every loss, such as a host after a dropped link."""
    has_snapshots: ClassVar[bool] = False
    """True if `take_snapshot` and `drop_snapshot` are implemented."""
    proxies_network: ClassVar[bool] = False
    """True if a proxy enforces a `network` list, in a target without a network of its own."""
    more_pythons: ClassVar[Sequence[str]] = ()
    """Paths of Pythons in the target at unusual places."""
    internal: Commands

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        hosts = getattr(settings.own, "network", None)
        self.network = self._network_of(hosts) if self.proxies_network and isinstance(hosts, tuple) else None
        """Restricts the target to the settings' hosts; None without a list of hosts."""
        self.life = Lifecycle(self, settings.env, stays=self.target_stays, reporter=self.progress)
        self.shells: Shells = Shells(self, self.life)
        self.scratch = Scratch(self)
        self.internal = Commands(self)
        self.session_of_execute = Session(self, self.shells)
        self.oneshots = OneshotRunner(self, self.shells)
        self.named: set[Session] = set()
        """The open named sessions."""
        self.session_numbers: Iterator[int] = itertools.count(1)
        self.ready_since: int | None = None
        """The time of first readiness on the target's clock, see `ProcessSelector.since`."""
        self.forked_from: str | None = None
        """The snapshot taken for this environment alone, see `fork`."""

    def _network_of(self, hosts: Sequence[str]) -> TargetNetwork:
        from environments.shell.network import TargetNetwork  # most settings have no list

        network = TargetNetwork(self, hosts)
        self.passthrough.fixed = network.variables
        return network

    # Methods of a backend.

    @abstractmethod
    def start_target(self) -> Awaitable[None] | None:
        """Start the target, so that streams can be opened.

        Called first, and again after a loss: it then frees the rest of the old target, and makes a new link, or a new
        target if the old one is gone. Waits can be aborted by `current_start()`; an error leaves no new resources.

        Raises:
            EnvironmentStartError: The target cannot be started.
        """

    @abstractmethod
    def open_stream(
        self, argv: Sequence[str], terminal: Terminal | None = None
    ) -> Stream | BlockingStream | Awaitable[Stream]:
        """Start a process in the target, and return its streams.

        Args:
            argv: The program and its arguments, possibly visible to other users of the target.
            terminal: The size of a terminal; None is pipes.

        Raises:
            EnvironmentStartError: The process could not be started.
        """

    def found_bash(self) -> None:
        """Note that a shell of the target's default user is a supported bash."""

    def find_user(self, user: str) -> TargetUser:
        """Find a user of the target, and a method to become this user.

        Args:
            user: A name or a number.

        Raises:
            UnsupportedError: There is no such user, or no method.
        """
        return find_user(user, self.run_control, self.settings.env)

    def open_stream_as(
        self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None
    ) -> Stream | BlockingStream | Awaitable[Stream]:
        """Start a process in the target as another user, see `open_stream`."""
        return self.open_stream(user.becoming(argv), terminal)

    @abstractmethod
    def stop_target(self) -> Awaitable[None] | None:
        """Stop the target and free its local resources. Called once, also for a lost target."""

    @property
    def stop_ends_all(self) -> bool:
        """True if `stop_target` leaves no process and no file, so that `cleanup` need not search before."""
        return False

    @property
    def owns_all_processes(self) -> bool:
        """True if all visible processes of the target are this environment's, so that all may be stopped at once."""
        return False

    @property
    def link_may_drop(self) -> bool:
        """True if the end of a stream may be a dropped link, with the process still running.

        A watchdog then waits, so that a running program can stop it over a new link.
        """
        return self.target_stays

    def has_no_process(self, marker: str, but: Collection[int]) -> Awaitable[bool] | bool:
        """Return True if certainly no process has a marker, except some, without a query in the target.

        With the marker of the whole environment, no process may have its brand either, see
        `dialect.commands.branding`.
        """
        return False

    def hunt(self, marker: str, brand: str | None) -> None:
        """End processes that fork and exit in an endless chain, out of reach of any look by a shell.

        Args:
            marker: The value of the marker variable, or a part; several are separated by newlines.
            brand: The brand, or a pattern of brands, see `dialect.commands.branding`.
        """

    def new_process_check(self, brand: int | None) -> Callable[[str], Awaitable[bool]] | None:
        """Return a check whether any process may have the marker or the brand of a command that begins now.

        None if the check needs a query in the target.

        Args:
            brand: The brand, see `dialect.commands.branding`; None without a brand.
        """
        return None

    def run_in_rescue(self, text: str) -> Awaitable[str] | str:
        """Run shell text of builtins out of reach of the target's processes, and return its output.

        Called for shells without an answer: a command may have stopped all processes.

        Raises:
            TerminalError: There is no answer.
        """
        return self._in_new_process(text)

    async def _in_new_process(self, text: str) -> str:
        return await printed(await opened(self.open_stream, ["/bin/sh", "-c", text]))

    def target_loss(self) -> Awaitable[str | None] | str | None:
        """Return why the target is gone, or None while it is there. Called after an unexpected end of a stream."""
        return None

    def describe_target(self, cwd: str) -> Target:
        """Describe the running target, see `Target`; by default the backend's name alone.

        Args:
            cwd: The session's working directory, a good start for a person who enters.
        """
        from environments.target import Target  # most programs never ask for it

        return Target(self.settings.env, "machine", "")

    def find_address(self, port: int) -> Address:
        """Return the address of a valid port, see `address`. Backends with reachable ports override this."""
        raise UnsupportedError(
            f"backend {self.settings.env!r} has no way to a port of its target; use one that has, or reach port {port} "
            "by a command in the target"
        )

    def why_killed(self) -> Awaitable[str | None] | str | None:
        """Return the limit of the target that has ended a process since the last call, or None.

        Called after exit code 137. A backend with access to such limits overrides this.
        """
        return None

    def take_snapshot(self, name: str | None) -> Awaitable[str] | str:
        """Store the target's files as a snapshot, and return the image, see `BaseEnvironment.snapshot`.

        Called once the target is up. Runs to its end even if the caller is interrupted.

        Args:
            name: The checked name; None is a snapshot for one fork, removed later by `drop_snapshot`. Its labels have
                to mark it as such and name the process, so that `gc` can remove it.

        Raises:
            UnsupportedError: The target has no snapshots.
            TerminalError: The snapshot could not be taken.
        """
        raise NotImplementedError

    def drop_snapshot(self, snapshot: str) -> Awaitable[None] | None:
        """Remove a fork's snapshot, if present. Called on the fork once its target is gone.

        Raises:
            TerminalError: The snapshot could not be removed.
        """
        raise NotImplementedError

    def settings_on(self, snapshot: str) -> EnvironmentSettings:
        """Return this environment's settings with a snapshot as the image."""
        own: Any = self.settings.own
        hosts = {"network": self.network.hosts} if self.network else {}
        return replace(self.settings, own=replace(own, image=snapshot, **hosts))

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the resource settings enforced by the target."""
        return self.settings_class.of(self.settings).enforces

    @cached_property
    def files(self) -> ShellFiles:
        # A backend may override this with a faster way.
        from environments.shell.files import ShellFiles  # most programs transfer no file
        from environments.shell.transfer import Runner

        return ShellFiles(Runner(self), self.settings.env, self.progress)

    # The interface.

    @property
    @on_loop
    async def capabilities(self) -> Capabilities:
        await self.session_of_execute.variable("PWD", sourced=False)  # opens a shell
        dialect = self.shells.dialect
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=dialect.name if dialect else "",
            enforced_limits=self.enforced_limits,
        )

    @property
    def target(self) -> Target:
        cwd = self.cwd  # opens the first shell
        self.ensure_started()
        return self.describe_target(cwd)

    def address(self, port: int) -> Address:
        from environments.target import checked_port  # most programs never ask for one

        return self.find_address(checked_port(port))

    @property
    def busy(self) -> bool:
        sessions = (self.session_of_execute, *self.named)
        return bool(self.oneshots.running or self.internal.processes) or any(each.busy for each in sessions)

    @property
    @on_loop
    async def cwd(self) -> str:
        return await self.session_of_execute.variable("PWD", sourced=False)

    def _new_session(self, name: str, cwd: str | None, user: str | None) -> NamedSession:
        self.life.check()
        return NamedSession(name, self, cwd, user)

    def interrupt(self) -> None:
        self.life.check_process()
        current().soon(self._interrupt)

    def _interrupt(self) -> None:
        self.life.stop_start("it was interrupted")
        self.session_of_execute.interrupt()

    @on_loop
    async def prepare(self) -> None:
        await self.life.ensure_started()
        if self.network:
            await self.network.ensure()
        self.command_sent()  # runs beside the opening of the session
        await self.session_of_execute.variable("PWD")
        await self.shells.control.await_reserve()
        if self.ready_since is None and self.owns_all_processes:
            from environments.shell.process_table import parse_time  # few environments own their target

            # Read from the target: on a loaded machine, the local clock is not exact enough for processes started just
            # before.
            self.ready_since = parse_time((await self.run_internal(TELL_TIME))[0])

    @property
    def is_ready(self) -> bool:
        return self.life.is_ours and self.life.stage is Stage.STARTED and self.session_of_execute.is_ready

    @on_loop
    async def set_network(self, network: str | Sequence[str]) -> None:
        hosts = network_argument(network)
        self.life.check()
        if self.network:
            self.network.set(hosts)
        elif self.proxies_network:
            raise UnsupportedError(
                f"backend {self.settings.env!r}: this environment was made without a list of hosts, so its hosts "
                f"cannot be changed; make it with network as a list, which may be empty"
            )
        else:
            super().set_network(hosts)

    def renew(self) -> None:
        self.life.check()
        self.close_sessions()
        self.run_on_loop(lambda _: renew(self))
        self.attachments.renew()
        self.passthrough.renew()

    @on_loop
    async def snapshot(self, name: str) -> str:
        return await snapshots.take_snapshot(self, name)

    async def _fork(self, call: Call[BaseEnvironment] | None) -> BaseEnvironment:
        self.check_process()
        return await snapshots.fork(self, call)

    @waits_for(_fork)
    def fork(self) -> BaseEnvironment:
        return self.run_on_loop(self._fork)

    async def _cleanup(self, _: Call[Any]) -> None:
        if self.life.is_ours:
            await self.close()

    @waits_for(_cleanup)
    def cleanup(self) -> None:
        if self.life.is_ours:
            run(self._cleanup)

    async def close(self) -> None:
        """End everything. All callers wait for the same end. The end goes on if a caller leaves."""
        await self.file_calls.end()
        await self.life.close(self._end_all)

    async def _end_all(self) -> None:
        try:
            if self.life.generation:
                await end_all(self)
        finally:
            await snapshots.drop_own(self)

    def __del__(self, is_at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_at_end() and (life := getattr(self, "life", None)):  # at exit, names of modules may be gone
            life.clean_up_abandoned(self)

    # For backends and internal parts.

    def check_process(self) -> None:
        """Raise TerminalError if the environment belongs to another process."""
        self.life.check_process()

    def run_on_loop(self, work: Callable[[Call[T]], Awaitable[T]]) -> T:
        """Run a coroutine on the loop thread, and wait for the result."""
        self.life.check_process()
        return run(work)

    def ensure_started(self) -> int:
        """Start the target unless it is up, and return the count of targets so far.

        Raises:
            TerminalError: The start failed, or the environment was cleaned up.
        """
        return self.run_on_loop(lambda _: self.life.ensure_started())

    def run_control(self, text: str, timeout: float = CONTROL_LIMIT) -> CommandResult:
        """Run an internal command, free of `max_streams`, the settings' limits and cancelled scopes.

        Args:
            text: Shell text.
            timeout: The time-out in seconds.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        output, code = self.run_on_loop(lambda _: self.run_internal(text, timeout))
        return CommandResult(output, code)

    async def run_internal(self, text: str, timeout: float = CONTROL_LIMIT) -> tuple[str, int]:
        """Run an internal command, and return its output and exit code, see `run_control`."""
        return await self.shells.control.run_with_code(text, timeout)

    def command_sent(self) -> None:
        """Prepare the reserve shell: a command may have to be ended."""
        self.shells.control.reserve()

    @property
    def has_scratch(self) -> bool:
        """True if there is a private directory in the target, possibly in a volume that outlives it."""
        return self.scratch.is_there

    async def make_scratch(self, name: str) -> str:
        """Make a private directory with a given name in the target, and return its path.

        Raises:
            TerminalError: The directory could not be made.
        """
        return scratch_path_of(self.settings.env, *await self.run_internal(making_scratch(name)))

    async def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file into the private directory, readable by the target's user alone."""
        await self.files.write(path, data, "600")
