"""An environment that reaches its target through shells: what a backend answers, and what follows from that."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from environments.base import BaseEnvironment
from environments.call import Call
from environments.log import logger
from environments.owner import Owner
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.shell.account import Account
from environments.shell.accounts import Accounts
from environments.shell.control import CONTROL_TIMEOUT
from environments.shell.file_methods import FileMethods
from environments.shell.lifecycle import Lifecycle
from environments.shell.named_sessions import NamedSessions
from environments.shell.pool import Slots
from environments.shell.renewal import Renewal
from environments.shell.scratch import made_scratch
from environments.shell.seat import Seat
from environments.shell.session import Session
from environments.shell.stream import Stream, Terminal

if TYPE_CHECKING:
    from environments.process import Background, Process
    from environments.session import EnvironmentSession
    from environments.shell.exported import Exported
    from environments.shell.files import ShellFiles
    from environments.shell.target_user import TargetUser
    from environments.target import Target

log = logger(__name__)


class PersistentShellEnvironment(FileMethods, Renewal, BaseEnvironment):
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
    control_timeout: ClassVar[float] = CONTROL_TIMEOUT
    """Seconds that a command of our own may take."""
    starts_apart: ClassVar[bool] = True
    """Whether `start_target` runs on a thread of its own, so that it can be stopped, see `environments.starting`."""

    target_stays: ClassVar[bool] = False
    """Whether the target is the same after every loss, such as a host to which the link was dropped."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        super().__init__(settings)
        self.id = f"{Owner.this_process().mark}-{os.urandom(4).hex()}"
        self.life = Lifecycle(
            self.observation.starting(self.start_target),
            settings.env,
            self.stop_target,
            apart=self.starts_apart,
            stays=self.target_stays,
            reporter=self.progress,
        )
        self._accounts = Accounts(self, Slots(self.max_streams - 1) if self.max_streams else None)
        self._account = own = self._accounts.own
        self._session = self.new_session()
        self._named = NamedSessions(self, own)
        self._ours = own.ours
        self.life.watch(self)

    @cached_property
    def _files(self) -> ShellFiles:  # type: ignore[override]  # a backend may set it
        from environments.shell.files import ShellFiles  # most commands need no file

        return ShellFiles(self._ours, self.settings.env, self.progress)

    def new_session(self, seat: Seat | None = None, cwd: str | None = None) -> Session:
        """Make a session.

        Args:
            seat: Where its shells are; None is the default one's.
            cwd: The directory to begin in; None is as the settings say.
        """
        own = self._account
        return Session(
            own.shells,
            own.runner,
            own.requests,
            own.leftovers,
            replace(self.settings, cwd=cwd) if cwd else self.settings,
            on_sent=self.command_sent,
            variables=lambda: {**own.shells.variables(), **self.passthrough.values()},
            seat=seat,
        )

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

    def find_user(self, user: str) -> TargetUser:
        """Look for a user of the target, and for a way to become that user.

        Args:
            user: A name or a number.

        Raises:
            UnsupportedError: There is no such user, or no way.
        """
        from environments.shell.target_user import find_user  # most commands run as the target's own user

        return find_user(user, self.run_control, self.settings.env)

    def open_stream_as(self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target as another user than its own, see `StreamOpener`."""
        return self.open_stream(user.becoming(argv), terminal)

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

    def has_no_process(self, marker: str, but: Collection[int]) -> bool:
        """Whether it is certain, without asking in the target, that no process but some there has a marker."""
        return False

    def target_loss(self) -> str | None:
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
        self.variable_of_ours("PWD")  # which has a shell opened, if there has been none
        dialect = self._account.shells.dialect
        return Capabilities(
            persistent_session=self.settings.persistent_shell,
            same_machine=self.same_machine,
            shell=dialect.name if dialect else "",
            enforced_limits=self.enforced_limits,
        )

    def find_target(self) -> Target:
        """Say what the target is, see `BaseEnvironment.target`."""
        cwd = self.cwd  # which has the first shell opened
        self.life.ensure_started()
        return self.describe_target(cwd)

    @property
    def busy(self) -> bool:
        """Whether something runs, see `BaseEnvironment`."""
        return any(account.busy for account in self._accounts.all())

    @property
    def cwd(self) -> str:
        """The session's working directory, see `BaseEnvironment`."""
        return self.variable_of_ours("PWD")

    def handed_on(self) -> Mapping[str, str]:
        """Return the variables of this process that commands get."""
        return self.passthrough.values()

    def session_variable(self, name: str) -> str:
        """Return one of the `WATCHED` variables as the session's last command left it; empty if it is not set."""
        return self._session.variable(name)

    def session_exports(self) -> Exported:
        """Return what the session's last ended command left exported."""
        return self._session.exported()

    def variable_of_ours(self, name: str) -> str:
        """Return it for a command of our own, which also runs where a file that the session begins with is at fault."""
        return self._session.variable(name, sourced=False)

    def run_in_session(self, call: Call) -> CommandResult:
        """Run a command in the session, see `BaseEnvironment.execute`."""
        return self.run_in(self._session, call)

    def run_in(self, session: Session, call: Call) -> CommandResult:
        """Run a command in one of the sessions."""
        account = self._account_for(call)
        try:
            return session.run(call) if call.user is None else session.run_apart(call, account.beside)
        finally:
            self.touch()

    def _account_for(self, call: Call) -> Account:
        """Return whose shells run a command.

        Raises:
            UnsupportedError: It is to run as a user that cannot be had.
        """
        self.life.ensure_started()
        account = self._accounts.of(call.user)
        account.await_reserve()
        return account

    def open_session(self, name: str, terminal: Terminal | None, cwd: str | None) -> EnvironmentSession:
        """Make a session of a name, see `Sessions`."""
        self.life.check()
        return self._named.open(name, terminal, cwd)

    def run_beside(self, call: Call) -> CommandResult:
        """Run a command beside the session, see `BaseEnvironment.execute_oneshot`."""
        account = self._account_for(call)
        account.command_sent()
        try:
            return account.beside.run(call)
        finally:
            self.touch()

    def run_in_background(self, call: Call, background: Background) -> Process:
        """Start a command in the background, see `BaseEnvironment.start`."""
        account = self._account_for(call)
        account.command_sent()
        return account.beside.start(call, background)

    def run_control(self, text: str, timeout: float = CONTROL_TIMEOUT) -> CommandResult:
        """Run a command of our own: without the limits of `max_streams`, the settings or a cancelled scope.

        Args:
            text: Shell text.
            timeout: Seconds by which it must have ended.

        Raises:
            EnvironmentLostError: The target did not answer in time.
        """
        return self._account.control.run(text, timeout)

    def interrupt(self) -> None:
        """End the command `execute` is running, or the start that it waits for, see `BaseEnvironment`."""
        self.life.check_process()
        self.life.stop_start("it was interrupted")
        self._session.interrupt()

    def command_sent(self) -> None:
        """Have what ends commands ready, now that there is one that may have to be ended."""
        self._account.control.reserve()

    def cleanup(self) -> None:
        """End everything, see `BaseEnvironment`."""
        if self.life.is_ours:
            self.end_file_calls()
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
                for account in self._accounts.all():  # what came behind their end; what comes from here on is refused
                    account.shells.end_all()
                self.attachments.close()

    def _end_all(self) -> None:
        self.life.end_starts()
        accounts = self._accounts.all()
        for account in accounts:
            account.abandon_all()
        try:
            if not self.stop_ends_all:
                for account in accounts:
                    account.end_everything()
        finally:
            self._close()

    def _close(self) -> None:
        """Free what is held here, and take the target down."""
        accounts = self._accounts.all()
        try:
            for account in accounts:
                account.close()
            self._session.close()
            self._named.close()
            self._account.shells.end_all()  # also one that was being opened, to set apart what a command had left
        finally:
            self.stop_target()
        for account in accounts:
            account.join()

    def __del__(self) -> None:
        if life := getattr(self, "life", None):
            life.abandoned(self)

    def scratch_directory(self) -> str:
        """Return our private directory in the target, made on first use."""
        return self._account.scratch.directory()

    def make_scratch(self, name: str) -> str:
        """Make a private directory of a name in the target, and return its path.

        Raises:
            TerminalError: It could not be made.
        """
        return made_scratch(name, self.run_control, self.settings.env)

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file into that directory, for the target's user alone."""
        self._files.write(path, data, mode="600")
