"""A session of a name, beside that of `execute`."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any

from environments.cancellation import start_limit
from environments.errors import TerminalError
from environments.internal import Ended
from environments.log import logger
from environments.loop import Call, current, on_loop, run, waits_for
from environments.options import Command
from environments.process import GRACE
from environments.session import EnvironmentSession
from environments.shell.session import Session

if TYPE_CHECKING:
    from environments.shell.environment import PersistentShellEnvironment

log = logger(__name__)


class NamedSession(EnvironmentSession):
    """A session with a shell of its own, whose shells have markers of their own.

    Args:
        name: The name that it was asked for by.
        env: The environment.
        cwd: The directory to begin in; None is as the settings say.
        user: The user that its shells run as; None is the target's own.
    """

    def __init__(self, name: str, env: PersistentShellEnvironment, cwd: str | None, user: str | None) -> None:
        super().__init__(name, env, user)
        self._env = env
        self._session = Session(env, env.shells, f"s{next(env.session_numbers)}.", cwd)
        env.named.add(self._session)
        self._interrupts = 0
        self._is_closed = False

    def check_process(self) -> None:
        """Raise TerminalError if the session belongs to another process."""
        self._env.check_process()

    @property
    def closed(self) -> bool:
        """True once `close` was called, see `EnvironmentSession`."""
        return self._is_closed

    @property
    def busy(self) -> bool:
        """True while a command has its turn, see `EnvironmentSession`."""
        return self._session.busy

    @property
    def _known_cwd(self) -> str | None:
        """Its directory as the last command left it, see `EnvironmentSession`."""
        return self._session.known_cwd

    @property
    @on_loop
    async def cwd(self) -> str:
        """Its working directory, see `EnvironmentSession`."""
        self._session.use(await self._env.internal.ready(self.user))
        return await self._session.variable("PWD")

    async def _run(self, call: Call[Any], command: Command) -> Ended:
        """Run a command on the loop, see `EnvironmentSession`."""
        before = self._interrupts
        with start_limit(math.inf, interrupted=lambda: self._interrupts != before):
            return await self._env.internal.run_in(self._session, call, command)

    def interrupt(self) -> None:
        """End the command that runs or waits for the target to start, see `EnvironmentSession`."""
        self._env.check_process()
        self._interrupts += 1
        current().soon(self._session.interrupt)

    async def _close(self, call: Call[None]) -> None:
        if not self._is_closed and self._env.life.is_ours:
            self._interrupts += 1
            self._session.check_outside(call, "close")
            await self._end()
        self._is_closed = True

    async def _end(self) -> None:
        env, session = self._env, self._session
        pid = session.shell_pid
        await session.close()
        env.named.discard(session)
        if not (session.variables and env.life.is_open and env.shells.dialect):
            return
        from environments.shell.kill import Quarry  # most programs need no second session

        marker = env.shells.markers(session.word)
        quarry = Quarry(marker, env.shells.dialect, pid, ends_shell=True, began=session.began)
        with contextlib.suppress(TerminalError):
            if survivors := await session.ending.tree(quarry).end(GRACE):
                log.warning("processes of a session could not be ended: %s", survivors)

    @waits_for(_close)
    def close(self) -> None:
        """End all that was started in it, see `EnvironmentSession`. A forked child ends nothing of its parent's."""
        if not self._env.life.is_ours:
            self._is_closed = True
        elif not self._is_closed:
            run(self._close)
