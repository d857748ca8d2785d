"""The users of a target that something of an environment runs as."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

from environments.result import CommandResult
from environments.shell.account import Account, Host
from environments.shell.pool import Slots
from environments.shell.scratch import made_scratch
from environments.shell.stream import Stream, Terminal
from environments.shell.target_shells import Common

if TYPE_CHECKING:
    from environments.shell.target_user import TargetUser


class ManyUsersHost(Host, Protocol):
    """What they ask their environment, see `PersistentShellEnvironment`."""

    def find_user(self, user: str) -> TargetUser:
        """Look for a user of the target, and for a way to become that user."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target."""

    def open_stream_as(self, user: TargetUser, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a process in the target as another user than its own."""


class OtherAccount(Account):
    """What runs as a user who was named: all of it by shells of that user's own, also where it is the target's user.

    Args:
        host: The environment.
        common: What its shells have in common with those of other users.
        slots: How many shells all accounts together may lend at once.
        user: The user.
    """

    def __init__(self, host: ManyUsersHost, common: Common, slots: Slots | None, user: TargetUser) -> None:
        self._user = user

        def open_stream(argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
            return host.open_stream_as(user, argv, terminal)

        super().__init__(host, common, slots, open_stream, user.variables)

    @property
    def is_above(self) -> bool:
        """Whether it sees more processes of the target than the target's own user does."""
        return self._user.uid == 0 and not self._user.is_own

    def is_alone(self) -> bool:
        """Whether no process that can be seen is anybody else's, and it can be told whose each is."""
        return self._user.uid == 0 and super().is_alone()

    def run_control(self, text: str, timeout: float | None = None) -> CommandResult:
        """Run a command of our own as that user."""
        return self.control.run(text, self._host.control_timeout if timeout is None else timeout)

    def has_no_process(self, marker: str, but: Collection[int] = ()) -> bool:
        """Whether it is certain that no process has a marker: of another user's that is not known here."""
        return False

    def end_processes(self) -> None:
        """End all processes of the environment that this user may end, if the target's own user may not as well."""
        if not self._user.is_own:
            super().end_processes()

    def command_sent(self) -> None:
        """Have what ends commands ready."""
        if self._host.has_reserve:
            self.control.reserve()

    def make_scratch(self, name: str) -> str:
        """Make a private directory of that user."""
        return made_scratch(name, self.run_control, self._host.settings.env)

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file there."""
        from environments.shell.files import ShellFiles  # most commands need no file

        ShellFiles(self.ours, self._host.settings.env).write(path, data, mode="600")

    def variable_of_ours(self, name: str) -> str:
        """Return where commands of our own run: the session's directory may be one that this user cannot enter."""
        return "/"


class Accounts:
    """Has one account for all that names no user, and one for each who is named, made on first use.

    Args:
        host: The environment.
        slots: How many shells all accounts together may lend at once; None is as many as asked for.
    """

    def __init__(self, host: ManyUsersHost, slots: Slots | None) -> None:
        self._host = host
        self._common = Common()
        self._slots = slots
        self._lock = threading.Lock()
        self._others: dict[TargetUser, OtherAccount] = {}
        self._found: dict[str, OtherAccount] = {}
        self._generation = 0
        self.own = Account(host, self._common, slots, host.open_stream)

    def of(self, user: str | None) -> Account:
        """Return the account of a user, who is looked for anew in each target.

        Args:
            user: A name or a number; None is the target's own.

        Raises:
            UnsupportedError: There is no such user, or no way to become that user.
            TerminalError: The target could not be started, or does not answer.
        """
        if user is None:
            return self.own
        generation = self._host.life.ensure_started()
        with self._lock:
            if generation != self._generation:
                self._found, self._generation = {}, generation
            elif account := self._found.get(user):
                return account
        found = self._host.find_user(user)
        with self._lock:
            account = self._others.get(found) or OtherAccount(self._host, self._common, self._slots, found)
            self._others[found] = account
            if generation == self._generation:
                self._found[user] = account
            return account

    def all(self) -> list[Account]:
        """Return all of them, in the order in which they are to be ended: one who sees all comes last."""
        with self._lock:
            others = list(self._others.values())
        above = [account for account in others if account.is_above]
        return [*(account for account in others if not account.is_above), self.own, *above]
