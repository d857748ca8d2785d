"""A named session that is awaited."""

from __future__ import annotations

from collections.abc import Awaitable
from types import TracebackType
from typing import Self

from environments import BaseEnvironment, EnvironmentSession
from hermes_env.aio.calls import as_coroutine, asked
from hermes_env.aio.streaming import Commands, Run, coroutine_of


class AsyncSession(Commands):
    """A session beside that of `execute`, see `environments.EnvironmentSession`. `AsyncEnvironment.session` makes it.

    Args:
        session: The session beneath.
        env: Its environment.
    """

    def __init__(self, session: EnvironmentSession, env: BaseEnvironment) -> None:
        self._session, self._env = session, env

    @property
    def sync(self) -> EnvironmentSession:
        """The session beneath, for what is not awaited."""
        return self._session

    @property
    def name(self) -> str:
        """The name that it was asked for by."""
        return self._session.name

    @property
    def user(self) -> str | None:
        """The user that its commands run as; None is the target's own."""
        return self._session.user

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
        return asked(self._session._backend, "cwd")

    interrupt = as_coroutine(EnvironmentSession.interrupt)
    """End the command that runs in this session, see `EnvironmentSession.interrupt`."""
    close = as_coroutine(EnvironmentSession.close, to_end=True)
    """End all that was started in it, see `EnvironmentSession.close`, also in a task that is cancelled."""

    def _in_session(self) -> Run | None:
        return None if self.closed else coroutine_of(self._env, self._session._backend.run)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
