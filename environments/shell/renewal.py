"""Having a session ready ahead of its first command, and beginning a new one in the same target."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.process import GRACE
from environments.readiness import Readiness
from environments.shell.dialect.commands import TELL_TIME
from environments.shell.lifecycle import Lifecycle, Stage
from environments.shell.session import Session

if TYPE_CHECKING:
    from environments.attachments import Attachments
    from environments.passthrough import Passthrough
    from environments.shell.account import Account
    from environments.shell.accounts import Accounts


class Renewal(Readiness, ABC):
    """The part of an environment with shells by which it is started ahead, and used anew."""

    id: str
    life: Lifecycle
    attachments: Attachments
    passthrough: Passthrough
    _accounts: Accounts
    _account: Account
    _session: Session
    _prepared: int | None = None
    """When it was first ready, on the target's clock, see `Quarry.since`."""

    if TYPE_CHECKING:  # what other parts of it have

        def new_session(self) -> Session:
            """Make a session."""

        def command_sent(self) -> None:
            """Have what ends commands ready."""

        def close_sessions(self) -> None:
            """Close those that have a name."""

    def prepare(self) -> None:
        """Start the target, and open the session and what ends its commands, see `Readiness`."""
        self.life.ensure_started()
        self.command_sent()  # which goes on beside the opening of the session
        super().prepare()
        self._account.control.await_reserve()
        if self._prepared is None and self._account.is_alone():
            from environments.shell.process_table import parse_time  # few have a target to themselves

            # Asked for here, as a time of ours is not exact enough on a loaded machine for what ran just before it.
            self._prepared = parse_time(self._account.run_control(TELL_TIME).output)

    @property
    def is_ready(self) -> bool:
        """Whether the session's shell is still there, as far as its stream says, see `Readiness`."""
        return self.life.is_ours and self.life.stage is Stage.STARTED and self._session.is_ready

    @property
    def has_scratch(self) -> bool:
        """Whether there is a private directory of ours in the target, which may be in something that outlives it."""
        return any(account.scratch.made for account in self._accounts.all())

    def renew(self) -> None:
        """End all that was started, and have the next command begin a new session, see `Readiness`."""
        self.life.check()
        self.close_sessions()
        accounts = self._accounts.all()
        for account in accounts:
            account.abandon_all()
        earlier, self._session = self._session, self.new_session()
        for account in accounts:
            account.scratch.remove()
            # But for the one that is taken next: any other would be waited for.
            account.shells.end_all(but=account.control.idle[-1:])
            if account is not self._account:
                account.end_processes()
        self._end_processes()
        earlier.close()
        self.attachments.renew()
        self.passthrough.renew()

    def _end_processes(self) -> None:
        """End those of the target's own user.

        Raises:
            TerminalError: Some outlive it.
        """
        marker, account = f"{self.id}/", self._account
        if account.has_no_process(marker, [shell.pid for shell in account.control.idle]):
            return
        from environments.shell.process_tree import Quarry  # most environments have one use

        if not (dialect := account.shells.dialect):
            return
        # What `service` or `su -` starts sheds its environment, and all marks of ours.
        quarry = Quarry(marker, dialect, since=self._prepared, takes_strays=True)
        if survivors := account.processes(quarry).end(GRACE):
            raise TerminalError(f"processes of an earlier use could not be ended: {survivors}")
