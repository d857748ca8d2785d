"""Named sessions: several shells whose state lasts, side by side in one target."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, Unpack

from environments.cancellation import start_limit
from environments.errors import TerminalError, UnsupportedError
from environments.observation.watched import Watched, came_of
from environments.options import (
    Command,
    CommandOptions,
    CommandText,
    check_directory,
    check_text,
    checked,
    checked_user,
)
from environments.result import CommandResult
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from environments.approvals.decision import Way

MOST_SESSIONS = 64
"""How many named sessions may be open at once: each is a shell in the target."""
_DEFAULT = "default"


class SessionBackend(Protocol):
    """One session of a backend."""

    @property
    def cwd(self) -> str:
        """Its working directory. Has a shell opened, if there has been none."""

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""

    def run(self, command: Command) -> CommandResult:
        """Run a command, see `BaseEnvironment.execute`."""

    def interrupt(self) -> None:
        """End the command that runs."""

    def end(self) -> None:
        """End all that was started in it."""


class SessionHost(Protocol):
    """What a session uses of its environment, see `BaseEnvironment`."""

    settings: EnvironmentSettings
    observation: Watched

    def touch(self) -> None:
        """Note that the environment is in use."""

    def may_run(
        self,
        command: str,
        cwd: str | None,
        way: Way,
        user: str | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> bool:
        """Ask about a command."""


class EnvironmentSession:
    """A session beside that of `execute`, with a working directory, exports, functions, options and turn of its own.

    `BaseEnvironment.session` makes it; it is thread-safe. Commands of different sessions run side by side. Leave the
    `with` block, or call `close`, and nothing of it stays behind; the environment's `cleanup` does the same.
    """

    def __init__(
        self, name: str, host: SessionHost, backend: SessionBackend, cwd: str | None, user: str | None = None
    ) -> None:
        self.name = name
        """What it was asked for by."""
        self.user = user
        """The user that its commands run as; None is the target's own."""
        self._host = host
        self._backend = backend
        self._known_cwd = cwd
        self._is_closed = False

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""
        return self._backend.busy

    @property
    def cwd(self) -> str:
        """Its working directory, as known from the last command that ended. Raises as `BaseEnvironment.cwd` does."""
        return self._backend.cwd

    def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in this session and wait for it, see `BaseEnvironment.execute`.

        Raises:
            TerminalError: Also when the session was closed.
        """
        call = self._session_call(command, **options)
        with self._host.observation.command(call, "session", self.name) as seen:
            return came_of(seen, self._ran(call))

    def _session_call(self, command: CommandText, **options: Unpack[CommandOptions]) -> Command:
        call = checked(command, self._host.settings.timeout, **options)
        if call.user is not None:
            raise UnsupportedError("a session runs its commands as one user; give user to env.session")
        self._host.touch()
        return call._replace(user=self.user)

    def _ran(self, call: Command) -> CommandResult:
        self._check_open()
        if not self._may_call(call):
            return CommandResult.never_ran(self._known_cwd or "")
        with start_limit(math.inf, interrupted=call.interrupt.is_set if call.interrupt else None):
            result = self._backend.run(call)
        if call.cwd is None:
            self._known_cwd = result.cwd
        return result

    def _check_open(self) -> None:
        if self._is_closed:
            raise TerminalError(f"session {self.name!r} was closed; env.session({self.name!r}) opens a new one")

    def _may_call(self, call: Command) -> bool:
        """Ask about a command. Returns False if it was cancelled meanwhile."""
        place = call.cwd or self._known_cwd
        return not call.is_cancelled and self._host.may_run(
            call.judged, place, "session", call.user, lambda: call.is_cancelled
        )

    def interrupt(self) -> None:
        """End the command that runs in this session, from any thread; others go on. Without one, does nothing.

        A command that waits for the target to start raises `StartStoppedError`.
        """
        self._backend.interrupt()

    def close(self) -> None:
        """End the command that runs, the shell, and what commands of this session have left in the background.

        Safe to call twice, and from any thread but one that runs a command in it.
        """
        if not self._is_closed:
            self._backend.end()
            self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Sessions(ABC):
    """The part of every environment that has named sessions."""

    settings: EnvironmentSettings

    def __init__(self) -> None:
        self._sessions: dict[str, EnvironmentSession] = {}
        self._sessions_lock = threading.Lock()

    def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> EnvironmentSession:
        """Return the session of a name, which is opened unless it is open.

        It has a shell of its own and begins as that of `execute` has begun: with nothing of what was exported or
        defined there. `execute`, `cwd` and `interrupt` of the environment go on to mean that one, which has no name.
        A session ends when it is closed, or with the environment.

        Args:
            name: Any text but `"default"`.
            cwd: The directory to begin in, an absolute path or one from `~`; None is as `settings.cwd` says.
            user: The user of the target that its commands run as, by name or number; None is the target's own.

        Raises:
            UnsupportedError: The target cannot run a shell as that user, or has one session only.
            TerminalError: 64 of them are open.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be, or the name is that of an open session of another user.
        """
        _check(name, cwd)
        runs_as = None if user is None else checked_user(user)
        with self._sessions_lock:
            found = self._sessions.get(name)
            if found and not found.closed:
                if found.user != runs_as:
                    raise ValueError(f"session {name!r} is open for user {found.user or 'of the target'!r}; close it")
                return found
            self._sessions = {known: each for known, each in self._sessions.items() if not each.closed}
            if len(self._sessions) >= MOST_SESSIONS:
                raise TerminalError(f"{MOST_SESSIONS} sessions are open; close one before you open {name!r}")
            made = self._sessions[name] = self.open_session(name, cwd, runs_as)
            return made

    def close_sessions(self) -> None:
        """Close those that are open."""
        with self._sessions_lock:
            found, self._sessions = list(self._sessions.values()), {}
        for each in found:
            each.close()

    @abstractmethod
    def open_session(self, name: str, cwd: str | None, user: str | None) -> EnvironmentSession:
        """Make a session, see `session`. Its shell is opened with its first command.

        Raises:
            UnsupportedError: The backend has no session but that of `execute`.
        """


def _check(name: object, cwd: object) -> None:
    check_text("name", name)
    if not name or name == _DEFAULT:
        raise ValueError(f"name is {name!r}; give the session a name of its own: that of execute() has none")
    if cwd is not None:
        check_directory(cwd)
        if not str(cwd).startswith(("/", "~")):
            raise ValueError(f"cwd is {cwd!r}; give an absolute path, or one that begins with ~")
