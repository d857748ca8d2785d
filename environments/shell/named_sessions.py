"""Sessions beside the default one: each with a shell of its own, in the same target."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from environments.call import Call
from environments.cancellation import start_limit
from environments.errors import TerminalError
from environments.log import logger
from environments.process import GRACE
from environments.result import CommandResult
from environments.session import EnvironmentSession, SessionHost
from environments.shell.account import Account
from environments.shell.lifecycle import Lifecycle
from environments.shell.seat import Seat
from environments.shell.session import Session
from environments.shell.shell import Shell
from environments.shell.stream import Terminal

log = logger(__name__)


class Host(SessionHost, Protocol):
    """What they ask their environment, see `PersistentShellEnvironment`."""

    life: Lifecycle

    def run_in(self, session: Session, call: Call) -> CommandResult:
        """Run a command in a session."""

    def new_session(self, seat: Seat, cwd: str | None) -> Session:
        """Make a session."""

    def scratch_directory(self) -> str:
        """Return our private directory in the target."""


class NamedSession:
    """One of them. See `SessionShell`.

    Args:
        host: The environment.
        account: Runs its commands.
        seat: Where its shells are.
        cwd: The directory to begin in; None is as the settings say.
        forget: Called when it has ended.
    """

    def __init__(
        self, host: Host, account: Account, seat: Seat, cwd: str | None, forget: Callable[[NamedSession], object]
    ) -> None:
        self._host = host
        self._account = account
        self._seat = seat
        self._forget = forget
        self._began = time.monotonic()
        self._interrupts = 0
        self.session = host.new_session(seat, cwd)

    @property
    def cwd(self) -> str:
        """Its working directory, see `SessionShell`."""
        self._host.life.check_process()
        return self.session.variable("PWD")

    @property
    def busy(self) -> bool:
        """Whether a command has its turn, see `SessionShell`."""
        return self.session.busy

    def run(self, call: Call) -> CommandResult:
        """Run a command, see `SessionShell`."""
        before = self._interrupts
        with start_limit(math.inf, interrupted=lambda: self._interrupts != before):
            return self._host.run_in(self.session, call)

    def interrupt(self) -> None:
        """End the command that runs or waits for the target to start, see `SessionShell`."""
        self._host.life.check_process()
        self._interrupts += 1
        self.session.interrupt()

    def type(self, data: bytes) -> None:
        """Type on its terminal, see `SessionShell`."""
        self._host.life.check()
        self.session.type(data)

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal, see `SessionShell`."""
        self._host.life.check()
        self.session.resize(terminal)

    def end(self) -> None:
        """End all that was started in it, see `SessionShell`. A forked child ends nothing of its parent's."""
        if not self._host.life.is_ours:
            return
        self._interrupts += 1
        self.session.end(self._end_rest)
        self._forget(self)

    def _end_rest(self, shell: Shell | None) -> None:
        """End what is left. A target that is gone has nothing left of it."""
        shells = self._account.shells
        if not (self._host.life.is_open and shells.dialect):
            return
        from environments.shell.process_tree import Quarry  # most programs need no second session

        quarry = Quarry(
            shells.markers(self._seat.word),
            shells.dialect,
            shell.pid if shell and shells.is_current(shell) else None,
            ends_shell=True,
            began=self._began,
        )
        with contextlib.suppress(TerminalError):
            if survivors := self._account.processes(quarry).end(GRACE):
                log.warning("processes of a session could not be ended: %s", survivors)


class NamedSessions:
    """Makes them, and closes them with their environment.

    Args:
        host: The environment.
        account: Runs their commands.
    """

    def __init__(self, host: Host, account: Account) -> None:
        self._host = host
        self._account = account
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._all: set[NamedSession] = set()

    def open(self, name: str, terminal: Terminal | None, cwd: str | None) -> EnvironmentSession:
        """Make one, see `Sessions.open_session`."""
        seat = Seat(f"s{next(self._numbers)}.", terminal, self._new_script)
        made = NamedSession(self._host, self._account, seat, cwd, self._forget)
        with self._lock:
            self._all.add(made)
        return EnvironmentSession(name, self._host, made, terminal, cwd or self._host.settings.cwd)

    def _new_script(self) -> str:
        return f"{self._host.scratch_directory()}/{os.urandom(8).hex()}"

    def _forget(self, ended: NamedSession) -> None:
        with self._lock:
            self._all.discard(ended)

    def close(self) -> None:
        """Wait for what is done in the background, once all shells are closed."""
        with self._lock:
            sessions = list(self._all)
        for each in sessions:
            each.session.close()
