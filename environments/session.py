"""Named sessions: several persistent shells in parallel in one target."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from environments.errors import TerminalError, UnsupportedError
from environments.internal import Ended, Execution
from environments.options import CheckedCommand, CommandOptions, CommandText, check_directory, check_text, checked
from environments.result import CommandResult

if TYPE_CHECKING:
    from environments.base import BaseEnvironment
    from environments.loop import Call

MOST_SESSIONS = 64
"""Maximum number of open named sessions; each is a shell in the target."""
_DEFAULT = "default"


class EnvironmentSession(ABC):
    """A session beside the default session, with its own directory, exports, functions, options and session lock.

    Returned by `BaseEnvironment.session`; thread-safe. Commands of different sessions run in parallel. Leave the `with`
    block, or call `close`, to end all processes of the session. The environment's `cleanup` closes all sessions.

    Args:
        name: Name of the session.
        env: The environment.
        user: User of the target that runs the commands; None is the target's default user.
    """

    def __init__(self, name: str, env: BaseEnvironment, user: str | None) -> None:
        self.name = name
        """Name of the session."""
        self.user = user
        """User of the target that runs the commands; None is the target's default user."""
        self._host = env

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True once `close` was called."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while a command runs in the session."""

    @property
    @abstractmethod
    def cwd(self) -> str:
        """Working directory after the last finished command. Raises the errors of `BaseEnvironment.cwd`."""

    def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in this session and wait for the result, see `BaseEnvironment.execute`.

        Raises:
            TerminalError: Also if the session was closed.
        """
        return self._execution(command, **options).result()

    def _execution(self, command: CommandText, **options: Unpack[CommandOptions]) -> Execution:
        return Execution(self._host, self._checked(command, **options), "session", self._run, self)

    def _checked(self, command: CommandText, **options: Unpack[CommandOptions]) -> CheckedCommand:
        call = checked(command, self._host.settings.timeout, **options)
        if call.user is not None:
            raise UnsupportedError("a session runs its commands as one user; give user to env.session")
        if self.closed:
            raise TerminalError(f"session {self.name!r} was closed; env.session({self.name!r}) opens a new one")
        self._host.touch()
        return call._replace(user=self.user)

    @property
    @abstractmethod
    def _known_cwd(self) -> str | None:
        """Working directory after the last command; None before the first, if no setting names one."""

    @abstractmethod
    async def _run(self, call: Call[Any], command: CheckedCommand) -> Ended:
        """Run a validated and permitted command on the loop."""

    @abstractmethod
    def interrupt(self) -> None:
        """End the running command of this session, from any thread. Idle, does nothing.

        A command that waits for the target's start raises `StartStoppedError`.
        """

    @abstractmethod
    def close(self) -> None:
        """End the running command, the shell, and the background processes of this session.

        A second call does nothing. Callable from any thread except one that runs a command in the session.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Sessions:
    """The open named sessions of an environment."""

    def __init__(self) -> None:
        self._open: dict[str, EnvironmentSession] = {}
        self._lock = threading.Lock()

    def get(
        self,
        name: str,
        cwd: str | None,
        user: str | None,
        make: Callable[[str, str | None, str | None], EnvironmentSession],
    ) -> EnvironmentSession:
        """Return the named session, created unless open, see `BaseEnvironment.session`."""
        _check(name, cwd)
        with self._lock:
            found = self._open.get(name)
            if found and not found.closed:
                if found.user != user:
                    raise ValueError(f"session {name!r} is open for user {found.user or 'of the target'!r}; close it")
                return found
            self._open = {known: each for known, each in self._open.items() if not each.closed}
            if len(self._open) >= MOST_SESSIONS:
                raise TerminalError(f"{MOST_SESSIONS} sessions are open; close one before you open {name!r}")
            made = self._open[name] = make(name, cwd, user)
            return made

    def close(self) -> None:
        """Close all open sessions."""
        with self._lock:
            found, self._open = list(self._open.values()), {}
        for each in found:
            each.close()


def _check(name: object, cwd: object) -> None:
    check_text("name", name)
    if not name or name == _DEFAULT:
        raise ValueError(f"name is {name!r}; give the session a name of its own: that of execute() has none")
    if cwd is not None:
        check_directory(cwd)
        if not str(cwd).startswith(("/", "~")):
            raise ValueError(f"cwd is {cwd!r}; give an absolute path, or one that begins with ~")
