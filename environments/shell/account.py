"""All that runs as one user of a target: its shells, who lends them, and what ends what they have started."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Protocol

from environments.errors import TerminalError
from environments.log import logger
from environments.process import GRACE
from environments.result import CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.beside import Beside, Origin
from environments.shell.control import ControlShells
from environments.shell.exported import Exported
from environments.shell.leftovers import Leftovers
from environments.shell.lifecycle import Lifecycle
from environments.shell.pool import ShellPool, Slots
from environments.shell.requests import Requests
from environments.shell.runner import Runner
from environments.shell.scratch import Scratch
from environments.shell.stream import StreamOpener
from environments.shell.target_shells import Common, TargetShells

if TYPE_CHECKING:
    from environments.shell.crowd import Crowd
    from environments.shell.process_tree import ProcessTree, Quarry

log = logger(__name__)

_NOBODY_ELSE: Mapping[str, str] = MappingProxyType({})


class Host(Protocol):
    """What an account asks its environment, see `PersistentShellEnvironment`."""

    id: str
    life: Lifecycle
    settings: EnvironmentSettings
    has_reserve: ClassVar[bool]
    control_timeout: ClassVar[float]
    streams_lag: bool

    @property
    def is_alone(self) -> bool:
        """Whether no process that can be seen in the target is anybody else's."""

    def target_loss(self) -> str | None:
        """Say why the target is gone, or None while it is there."""

    def why_killed(self) -> str | None:
        """Say which limit of the target has ended a process since this was asked last."""

    def session_variable(self, name: str) -> str:
        """Return one of the `WATCHED` variables of the session."""

    def has_no_process(self, marker: str, but: Collection[int]) -> bool:
        """Whether it is certain, without asking in the target, that no process but some there has a marker."""

    def variable_of_ours(self, name: str) -> str:
        """Return it for commands of our own."""

    def session_exports(self) -> Exported:
        """Return what the session has exported."""

    def handed_on(self) -> Mapping[str, str]:
        """Return the variables of this process that commands get."""

    def run_control(self, text: str, timeout: float = ...) -> CommandResult:
        """Run a command of our own as the target's user."""

    def command_sent(self) -> None:
        """Have what ends that user's commands ready."""

    def make_scratch(self, name: str) -> str:
        """Make a private directory of that user, and return its path."""

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file there."""


class Account:
    """What runs as the target's own user; commands of users beside the session, and commands of our own.

    Args:
        host: The environment.
        common: What its shells have in common with those of other users.
        slots: How many shells all accounts together may lend at once.
        open_stream: Starts a process in the target as that user.
        identity: Variables that say who that is, where it is another than the target's own.
    """

    def __init__(
        self,
        host: Host,
        common: Common,
        slots: Slots | None,
        open_stream: StreamOpener,
        identity: Mapping[str, str] = _NOBODY_ELSE,
    ) -> None:
        settings, life = host.settings, host.life
        self._host = host

        def lags() -> bool:
            return host.streams_lag

        self.shells = TargetShells(host.id, life, open_stream, host.target_loss, lags, settings, common, identity)
        self.control = ControlShells(self.shells)
        self.pool = ShellPool(self.shells, slots)
        self.scratch = Scratch(host.id, life, self.make_scratch, self.run_control, self.write_scratch)
        self.requests = Requests(self.shells, self.scratch)
        self._crowd_lock = threading.Lock()
        self._crowd: Crowd | None = None
        self.runner = Runner(
            self.shells,
            self.processes,
            life,
            GRACE,
            host.why_killed,
            settings.max_output_bytes,
            self.has_no_process,
        )
        self.leftovers = Leftovers(self.shells, self.run_control)
        self.beside, self.ours = (
            Beside(self.shells, pool, self.requests, self.runner, life, settings, origin, variables)
            for pool, origin, variables in (
                (self.pool, Origin(host.session_variable, host.session_exports), host.handed_on),
                (self.control, Origin(self.variable_of_ours, Exported), dict[str, str]),
            )
        )

    # What differs for another user.

    def is_alone(self) -> bool:
        """Whether no process that can be seen is anybody else's."""
        return self._host.is_alone

    def run_control(self, text: str, timeout: float | None = None) -> CommandResult:
        """Run a command of our own, see `PersistentShellEnvironment.run_control`."""
        return self._host.run_control(text) if timeout is None else self._host.run_control(text, timeout)

    def make_scratch(self, name: str) -> str:
        """Make a private directory, see `PersistentShellEnvironment`."""
        return self._host.make_scratch(name)

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file there, see `PersistentShellEnvironment`."""
        self._host.write_scratch(path, data)

    def command_sent(self) -> None:
        """Have what ends commands ready, see `PersistentShellEnvironment`."""
        self._host.command_sent()

    def variable_of_ours(self, name: str) -> str:
        """Return a variable that commands of our own go by."""
        return self._host.variable_of_ours(name)

    def has_no_process(self, marker: str, but: Collection[int] = ()) -> bool:
        """Whether it is certain, without asking in the target, that no process but some there has a marker."""
        return self._host.has_no_process(marker, but)

    # What is the same.

    @property
    def busy(self) -> bool:
        """Whether a command or a background process runs."""
        return self.runner.busy or self.beside.busy

    def processes(self, quarry: Quarry) -> ProcessTree:
        """Return what finds and ends processes of this user."""
        from environments.shell.process_tree import ProcessTree  # most commands end by themselves

        return ProcessTree(self.run_control, quarry, self._its_crowd() if self._host.has_reserve else None)

    def _its_crowd(self) -> Crowd:
        from environments.shell.crowd import Crowd

        with self._crowd_lock:
            if self._crowd is None:
                self._crowd = Crowd(self.control.run_alone, self.is_alone, self._host.settings.container_pids)
            return self._crowd

    def await_reserve(self) -> None:
        """Let no command but the first begin where processes may run out, before that is there which ends it."""
        if self._host.is_alone:
            self.control.await_reserve()

    def abandon_all(self) -> None:
        """Take all that runs for interrupted, as everything is about to be ended."""
        self.runner.abandon_all()
        self.beside.abandon_all()
        self.ours.abandon_all()

    def end_everything(self) -> None:
        """End all processes, side by side, and remove our files."""
        with contextlib.suppress(TerminalError):
            self.scratch.remove()
            self.control.give_up_reserve()
            spare = self.control.idle[-1:]  # the one that is taken next: any other would be waited for
            self.shells.end_all(but=spare)
            if not self.has_no_process(f"{self._host.id}/", [shell.pid for shell in spare]):
                self.end_processes()
        self.shells.end_all()  # which another user's account, that comes next, would wait for

    def end_processes(self) -> None:
        """End all processes of the environment that this user may end."""
        if self.shells.dialect:
            from environments.shell.process_tree import Quarry

            quarry = Quarry(f"{self._host.id}/", self.shells.dialect)
            if survivors := self.processes(quarry).end(GRACE):
                log.warning("backend %r: processes could not be ended: %s", self._host.settings.env, survivors)

    def close(self) -> None:
        """Close all shells."""
        self.control.close()
        self.shells.end_all()
        self.pool.close()

    def join(self) -> None:
        """Wait until all background processes, and all shells, have been read to their end."""
        self.beside.join()
        self.ours.join()
        self.shells.join()
