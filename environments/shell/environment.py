"""An environment that reaches its target through shells: what a backend answers, and what follows from that."""

from __future__ import annotations

import contextlib
import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from environments.base import BaseEnvironment
from environments.call import Call, checked_data, checked_path
from environments.errors import TerminalError
from environments.log import logger
from environments.owner import Owner
from environments.process import GRACE, Background, Process
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.beside import Beside
from environments.shell.control import CONTROL_TIMEOUT, ControlShells
from environments.shell.crowd import Crowd
from environments.shell.dialect.commands import making_scratch
from environments.shell.files import ShellFiles
from environments.shell.leftovers import Leftovers
from environments.shell.lifecycle import Lifecycle
from environments.shell.pool import ShellPool
from environments.shell.process_tree import ProcessTree, Quarry
from environments.shell.requests import Requests
from environments.shell.runner import Runner
from environments.shell.scratch import Scratch
from environments.shell.session import Session
from environments.shell.stream import Stream, Terminal
from environments.shell.target_shells import TargetShells

if TYPE_CHECKING:
    from environments.shell.directories import Directories

log = logger(__name__)


class PersistentShellEnvironment(BaseEnvironment):
    """Everything but the target: a backend says how to start it, open a stream to it, and stop it.

    A command goes to the session (its turn), to a shell (its state) and to that shell's stream, and its result comes
    up the same way; one that runs beside the session goes to a shell of the pool instead.
    """

    same_machine = False
    """Whether the target shares this machine's files, sockets and processes."""
    max_streams: int | None = None
    """How many streams the target allows at once; None is as many as asked for."""
    streams_lag = False
    """Whether what a process printed may arrive after a later request was sent."""
    has_reserve: ClassVar[bool] = True
    """Whether a shell waits in the target for what has to be done when no process can be started there."""
    starts_apart: ClassVar[bool] = True
    """Whether `start_target` runs on a thread of its own, so that it can be stopped, see `environments.starting`."""

    target_stays: ClassVar[bool] = False
    """Whether the target is the same after every loss, such as a host to which the link was dropped."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        self.life = Lifecycle(
            self.start_target,
            settings.env,
            self.stop_target,
            apart=self.starts_apart,
            stays=self.target_stays,
            reporter=self.progress,
        )
        beside = self.max_streams - 1 if self.max_streams else None
        shells = TargetShells(
            self.id, self.life, self.open_stream, self.target_loss, lambda: self.streams_lag, settings
        )
        self._shells = shells
        self._control = ControlShells(shells)
        self._pool = ShellPool(shells, beside)
        self._scratch = Scratch(self.id, self.life, self.make_scratch, self.run_control, self.write_scratch)
        requests = Requests(shells, self._scratch)
        pids = settings.container_pids
        self._crowd = Crowd(self._control.run_alone, lambda: self.is_alone, pids) if self.has_reserve else None
        self._runner = Runner(shells, self.run_control, self.life, GRACE, self._crowd, self.why_killed)
        leftovers = Leftovers(shells, self.run_control)
        self._session = Session(
            shells,
            self._runner,
            requests,
            leftovers,
            settings,
            on_sent=self.command_sent,
            variables=lambda: {**shells.variables(), **self.passthrough.values()},
        )
        self._beside, self._ours = (
            Beside(shells, pool, requests, self._runner, self.life, settings, self._session.variable, variables)
            for pool, variables in ((self._pool, self.passthrough.values), (self._control, dict[str, str]))
        )
        self._files = ShellFiles(self._ours, settings.env, self.progress)
        self.life.watch(self)

    # What a backend answers.

    @abstractmethod
    def start_target(self) -> None:
        """Bring the target up, so that streams can be opened.

        Called before anything else, and again after a loss: then what is left of the old target is to be freed, and
        a new link made, or a new target where the old one is gone. It runs on a thread of its own unless
        `starts_apart` is false. What it waits for can be broken off by `current_start()`; an error leaves nothing
        behind that was not there before.

        Raises:
            EnvironmentStartError: It cannot be brought up.
        """

    @abstractmethod
    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target, see `StreamOpener`."""

    @abstractmethod
    def stop_target(self) -> None:
        """Take the target down and free what it holds here. Called once, also when the target is lost."""

    @property
    def stop_ends_all(self) -> bool:
        """Whether `stop_target` leaves no process and no file, so that `cleanup` need not look for them before."""
        return False

    @property
    def is_alone(self) -> bool:
        """Whether no process that can be seen in the target is anybody else's, so that all may be stopped at once."""
        return False

    def target_loss(self) -> str | None:
        """Say why the target is gone, or None while it is there. Asked when a stream ended unexpectedly."""
        return None

    @property
    def enforced_limits(self) -> frozenset[str]:
        """Names of the resource settings that the target enforces."""
        return self.settings_class.of(self.settings).enforces

    # The interface.

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do here, see `BaseEnvironment`."""
        self.session_variable("PWD")  # which has a shell opened, if there has been none
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=self._shells.dialect.name if self._shells.dialect else "",
            enforced_limits=self.enforced_limits,
        )

    @property
    def busy(self) -> bool:
        """Whether something runs, see `BaseEnvironment`."""
        return self._runner.busy or self._beside.busy

    @property
    def cwd(self) -> str:
        """The session's working directory, see `BaseEnvironment`."""
        return self.session_variable("PWD")

    def session_variable(self, name: str) -> str:
        """Return one of the `WATCHED` variables as the session's last command left it; empty if it is not set."""
        return self._session.variable(name)

    def run_in_session(self, call: Call) -> CommandResult:
        """Run a command in the session, see `BaseEnvironment.execute`."""
        self.life.ensure_started()
        self._await_reserve()
        try:
            return self._session.run(call)
        finally:
            self.touch()

    def run_beside(self, call: Call) -> CommandResult:
        """Run a command beside the session, see `BaseEnvironment.execute_oneshot`."""
        self.life.ensure_started()
        self._await_reserve()
        self.command_sent()
        try:
            return self._beside.run(call)
        finally:
            self.touch()

    def _await_reserve(self) -> None:
        """Let no command but the first begin where processes may run out, before that is there which ends it."""
        if self.is_alone:
            self._control.await_reserve()

    def run_in_background(self, call: Call, background: Background) -> Process:
        """Start a command in the background, see `BaseEnvironment.start`."""
        self.life.ensure_started()
        self._await_reserve()
        self.command_sent()
        return self._beside.start(call, background)

    def run_control(self, text: str, timeout: float = CONTROL_TIMEOUT) -> CommandResult:
        """Run a command of our own: without the limits of `max_streams`, the settings or a cancelled scope.

        Args:
            text: Shell text.
            timeout: Seconds by which it must have ended.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        return self._control.run(text, timeout)

    def interrupt(self) -> None:
        """End the command `execute` is running, or the start that it waits for, see `BaseEnvironment`."""
        self.life.check_process()
        self.life.stop_start("it was interrupted")
        self._session.interrupt()

    def command_sent(self) -> None:
        """Have what ends commands ready, now that there is one that may have to be ended."""
        self._control.reserve()

    def cleanup(self) -> None:
        """End everything, see `BaseEnvironment`."""
        if not self.life.begin_closing():
            return
        done = False
        try:
            if self.life.ever_started:
                self._end_all()
            done = True
        except Exception:  # of the backend, which will not do better next time; control-C may come at any moment
            done = True
            raise
        finally:
            self.life.end_closing(done=done)
            if done:  # behind the end: what is closed may wait for somebody who waits for that
                self.attachments.close()

    def _end_all(self) -> None:
        self.life.end_starts()
        self._runner.abandon_all()
        self._beside.abandon_all()
        self._ours.abandon_all()
        try:
            if not self.stop_ends_all:
                self._end_everything()
        finally:
            self._close()

    def _end_everything(self) -> None:
        """End all processes, side by side, and remove our files."""
        with contextlib.suppress(TerminalError):
            self._scratch.remove()
            self._shells.end_all(but=self._control.idle)
            if self._shells.dialect:
                quarry = Quarry(f"{self.id}/", self._shells.dialect)
                if survivors := ProcessTree(self.run_control, quarry, self._crowd).end(GRACE):
                    log.warning("backend %r: processes could not be ended: %s", self.settings.env, survivors)

    def _close(self) -> None:
        """Free what is held here, and take the target down."""
        try:
            self._control.close()
            self._shells.end_all()
            self._pool.close()
            self._session.close()
            self._shells.end_all()  # also one that the session was opening, to set apart what a command had left
        finally:
            self.stop_target()
        self._beside.join()
        self._ours.join()

    def __del__(self) -> None:
        if life := getattr(self, "life", None):
            life.abandoned(self)

    # Files, through the shell where a backend has nothing better.

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment`."""
        self._files.write(checked_path(path), checked_data(data))

    def read_bytes(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment`."""
        return self._files.read(checked_path(path))

    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self._files.put(Path(local), checked_path(remote))

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        self._files.get(checked_path(remote), Path(local))

    def put_dir(self, local: str | Path, remote: str | PurePosixPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `BaseEnvironment`."""
        self._directories().put(Path(local), checked_path(remote), skip_unchanged)

    def get_dir(self, remote: str | PurePosixPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `BaseEnvironment`."""
        self._directories().get(checked_path(remote), Path(local), skip_unchanged)

    def _directories(self) -> Directories:
        from environments.shell.directories import Directories  # few need it, and tarfile takes its time

        return Directories(self._ours, self.settings.env, self.progress)

    def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use."""
        return self._scratch.directory()

    def make_scratch(self, name: str) -> str:
        """Make a private directory of a name in the target, and return its path.

        Raises:
            TerminalError: It could not be made.
        """
        result = self.run_control(making_scratch(name))
        if result.exit_code != 0:
            raise TerminalError(
                f"no temporary directory can be made on backend {self.settings.env!r}, which standard input and long "
                f"commands need: {result.output.strip()}; set TMPDIR there to one that is writable"
            )
        return result.output

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file into that directory, for the target's user alone."""
        self._files.write(path, data, mode="600")
