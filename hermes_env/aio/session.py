"""A session of a name that is awaited."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import Self

from environments import EnvironmentSession
from hermes_env.aio.calls import asked, awaited, ended, in_turn
from hermes_env.aio.pools import Work
from hermes_env.aio.streams import Streams


class AsyncSession(Streams):
    """A session beside that of `execute`, see `environments.EnvironmentSession`. `AsyncEnvironment.session` makes it.

    Args:
        session: The session beneath.
        timeout: Seconds that its commands may take if nothing else is said.
    """

    def __init__(self, session: EnvironmentSession, timeout: float) -> None:
        self._session = session
        self._timeout = timeout
        self._is_closing = False

    @property
    def sync(self) -> EnvironmentSession:
        """The session beneath, for what is not awaited."""
        return self._session

    @property
    def name(self) -> str:
        """What it was asked for by."""
        return self._session.name

    @property
    def pty(self) -> bool:
        """Whether its commands have a terminal."""
        return self._session.pty

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._session.closed

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""
        return self._session.busy

    @property
    def cwd(self) -> Awaitable[str]:
        """Its working directory, see `EnvironmentSession.cwd`: `await session.cwd`."""
        return asked(lambda: self._session.cwd)

    execute = in_turn(EnvironmentSession.execute)
    """Run a command in this session and wait for it, see `EnvironmentSession.execute`."""
    interrupt = awaited(EnvironmentSession.interrupt, Work.CONTROL)
    """End the command that runs in this session, see `EnvironmentSession.interrupt`."""
    write = awaited(EnvironmentSession.write, Work.CONTROL)
    """Type on the terminal, see `EnvironmentSession.write`."""
    resize = awaited(EnvironmentSession.resize, Work.CONTROL)
    """Change the size of the terminal, see `EnvironmentSession.resize`."""
    _close = ended(EnvironmentSession.close)

    async def close(self) -> None:
        """End all that was started in it, see `EnvironmentSession.close`, also in a task that is cancelled."""
        self._is_closing = True
        await self._close()

    @property
    def _patience(self) -> float:
        return self._timeout

    @property
    def _is_over(self) -> bool:
        return self._is_closing

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
