"""Sessions of a name: several shells whose state lasts, side by side in one target."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from environments.arguments import check_directory, check_text
from environments.call import Call, Command, StderrMode, checked_call
from environments.cancellation import start_limit
from environments.errors import TerminalError, UnsupportedError
from environments.listener import OutputCallback
from environments.observation.watched import Watched, came_of
from environments.result import Capabilities, CommandResult
from environments.settings import EnvironmentSettings
from environments.terminal import Terminal

if TYPE_CHECKING:
    from environments.approvals.decision import Way

MOST_SESSIONS = 64
"""How many sessions of a name may be open at once: each is a shell in the target."""
_DEFAULT = "default"


class SessionShell(Protocol):
    """What a backend has for one session."""

    @property
    def cwd(self) -> str:
        """Its working directory. Has a shell opened, if there has been none."""

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""

    def run(self, call: Call) -> CommandResult:
        """Run a command, see `BaseEnvironment.execute`."""

    def interrupt(self) -> None:
        """End the command that runs."""

    def type(self, data: bytes) -> None:
        """Type on its terminal."""

    def resize(self, terminal: Terminal) -> None:
        """Change the size of its terminal."""

    def end(self) -> None:
        """End all that was started in it."""


class SessionHost(Protocol):
    """What a session asks its environment, see `BaseEnvironment`."""

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
        self, name: str, host: SessionHost, shell: SessionShell, terminal: Terminal | None, cwd: str | None
    ) -> None:
        self.name = name
        """What it was asked for by."""
        self.pty = terminal is not None
        """Whether its commands have a terminal."""
        self._host = host
        self._shell = shell
        self._known_cwd = cwd
        self._is_closed = False
        self._closing = threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def busy(self) -> bool:
        """Whether a command runs in it."""
        return self._shell.busy

    @property
    def cwd(self) -> str:
        """Its working directory, as known from the last command that ended. Raises as `BaseEnvironment.cwd` does."""
        return self._shell.cwd

    def execute(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        stderr: StderrMode = "merge",
        env: Mapping[str, str] | None = None,
        user: str | int | None = None,
        binary: bool = False,
        max_output_bytes: int | None = None,
        on_output: OutputCallback | None = None,
        interrupt: threading.Event | None = None,
    ) -> CommandResult:
        """Run a command in this session and wait for it, see `BaseEnvironment.execute`.

        On a terminal it reads what is typed, unless `stdin` is given; its output is what the terminal shows, with the
        echo of what was typed. Line breaks are left as the command writes them.

        Raises:
            ValueError: Also for `stderr="separate"` on a terminal, which shows both as one.
            TerminalError: Also when the session was closed.
        """
        if self.pty and stderr == "separate":
            raise ValueError('stderr is "separate", but a terminal shows both as one; use a session without pty')
        call = checked_call(
            command,
            self._host.settings.timeout if timeout is None else timeout,
            cwd=cwd,
            stdin=stdin,
            stderr=stderr,
            env=env,
            user=user,
            binary=binary,
            max_output_bytes=max_output_bytes,
            on_output=on_output,
            interrupt=interrupt,
        )
        if self.pty and call.user is not None:
            raise UnsupportedError(
                f"session {self.name!r} has a terminal, which is the target user's; run the command in one without "
                "pty, or by start(pty=True, user=...)"
            )
        self._host.touch()
        return self._run(call)

    def _run(self, call: Call) -> CommandResult:
        with self._host.observation.command(call, "session", self.name) as seen:
            return came_of(seen, self._ran(call))

    def _ran(self, call: Call) -> CommandResult:
        self._check_open()
        if not self._may_call(call):
            return CommandResult.never_ran(self._known_cwd or "")
        with start_limit(math.inf, interrupted=call.interrupt.is_set if call.interrupt else None):
            result = self._shell.run(call)
        if call.cwd is None and call.user is None:
            self._known_cwd = result.cwd
        return result

    def _may_call(self, call: Call) -> bool:
        """Ask about a command. Returns False if nobody waits for it any more."""
        place = call.cwd or self._known_cwd
        return not call.is_cancelled and self._host.may_run(
            call.judged, place, "session", call.user, lambda: call.is_cancelled
        )

    def _check_open(self) -> None:
        if self._is_closed:
            raise TerminalError(f"session {self.name!r} was closed; env.session({self.name!r}) opens a new one")

    def interrupt(self) -> None:
        """End the command that runs in this session, from any thread; others go on. Without one, does nothing.

        A command that waits for the target to start raises `StartStoppedError`.
        """
        self._shell.interrupt()

    def write(self, text: str | bytes) -> None:
        """Type on the terminal, from any thread or from `on_output`: for a prompt, or `"\\x03"` for control-C.

        The command that runs gets it; without one, the next. What a command has not read stays for the next as on
        every terminal, and the shell never takes it for a command. It may take until somebody reads.

        Raises:
            UnsupportedError: The session has no terminal.
            TerminalError: It was closed, or 64 KiB were typed that nobody has taken.
            TypeError: It is neither text nor bytes.
        """
        self._check_terminal()
        if not isinstance(text, (bytes, bytearray)):
            check_text("text", text)
        self._shell.type(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text))

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal, in characters.

        Raises:
            UnsupportedError: The session has no terminal.
            TerminalError: It was closed.
            TypeError: One of the numbers is not whole.
            ValueError: There is no such size.
        """
        size = Terminal.checked(rows, columns)
        self._check_terminal()
        self._shell.resize(size)

    def _check_terminal(self) -> None:
        self._check_open()
        if not self.pty:
            raise UnsupportedError(f"session {self.name!r} has no terminal; open it with pty=True")

    def close(self) -> None:
        """End the command that runs, the shell, and what commands of this session have left in the background.

        Safe to call twice, and from any thread but one that runs a command in it.
        """
        with self._closing:
            if not self._is_closed:
                self._shell.end()
                self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Sessions(ABC):
    """The part of every environment that has sessions of a name."""

    settings: EnvironmentSettings

    def __init__(self) -> None:
        self._sessions: dict[str, EnvironmentSession] = {}
        self._sessions_lock = threading.Lock()

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do here."""

    def session(
        self, name: str, *, pty: bool = False, rows: int = 24, columns: int = 80, cwd: str | None = None
    ) -> EnvironmentSession:
        """Return the session of a name, which is opened unless it is open.

        It has a shell of its own and begins as that of `execute` has begun: with nothing of what was exported or
        defined there. `execute`, `cwd` and `interrupt` of the environment go on to mean that one, which has no name.
        A session ends when it is closed, or with the environment.

        Args:
            name: Any text but `"default"`.
            pty: Whether its commands have a terminal, for password prompts, programs that ask, and job control.
            rows: Height of that terminal in lines.
            columns: Width of that terminal in characters.
            cwd: The directory to begin in, an absolute path or one from `~`; None is as `settings.cwd` says.

        Raises:
            UnsupportedError: The backend has no pty here; to know that, it is started. Or it has one session only.
            EnvironmentStartError: For a pty: the target could not be started.
            TerminalError: 64 of them are open.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be, or the name is that of an open session whose `pty` is
                another.
        """
        terminal = _checked(name, pty, rows, columns, cwd)
        if terminal and not self.capabilities.pty:
            raise UnsupportedError(f"backend {self.settings.env!r} has no pty here; open the session without one")
        with self._sessions_lock:
            found = self._sessions.get(name)
            if found and not found.closed:
                if found.pty != bool(terminal):
                    raise ValueError(f"session {name!r} is open {'with' if found.pty else 'without'} a pty; close it")
                return found
            self._sessions = {known: each for known, each in self._sessions.items() if not each.closed}
            if len(self._sessions) >= MOST_SESSIONS:
                raise TerminalError(f"{MOST_SESSIONS} sessions are open; close one before you open {name!r}")
            made = self._sessions[name] = self.open_session(name, terminal, cwd)
            return made

    def close_sessions(self) -> None:
        """Close those that are open."""
        with self._sessions_lock:
            found, self._sessions = list(self._sessions.values()), {}
        for each in found:
            each.close()

    def open_session(self, name: str, terminal: Terminal | None, cwd: str | None) -> EnvironmentSession:
        """Make a session, see `session`. Its shell is opened with its first command.

        A backend that does not override it has no session but that of `execute`.
        """
        raise UnsupportedError(f"backend {self.settings.env!r} has no session but that of execute()")


def _checked(name: object, pty: bool, rows: int, columns: int, cwd: object) -> Terminal | None:
    check_text("name", name)
    if not name or name == _DEFAULT:
        raise ValueError(f"name is {name!r}; give the session a name of its own: that of execute() has none")
    if cwd is not None:
        check_directory(cwd)
        if not str(cwd).startswith(("/", "~")):
            raise ValueError(f"cwd is {cwd!r}; give an absolute path, or one that begins with ~")
    return Terminal.checked(rows, columns) if pty else None
