"""What every environment is."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Protocol, Self, TypeVar, Unpack

from environments.approvals.gate import Gate
from environments.cancellation import cancellable
from environments.errors import CallCancelledError, UnsupportedError
from environments.files import (
    FileCalls,
    FileStatus,
    TargetFiles,
    TargetPath,
    check_codec,
    decoded_text,
    encoded_text,
    file_method,
)
from environments.internal import Execution, Internal
from environments.loop import run
from environments.observation.observed import Observation
from environments.options import (
    CheckedCommand,
    CommandOptions,
    CommandText,
    StartOptions,
    checked,
    checked_data,
    checked_limit,
    checked_mode,
    checked_path,
    checked_removable,
    checked_user,
)
from environments.process import Process, checked_start
from environments.redaction import Redactor
from environments.result import Capabilities, CommandResult
from environments.secrets import SecretValues
from environments.session import EnvironmentSession, Sessions
from environments.settings import BackendSettings, EnvironmentSettings
from environments.starting import Reporter, StartLimits
from environments.variables import Passthrough

if TYPE_CHECKING:
    from pathlib import Path

    from environments.found_target import FoundTarget
    from environments.model_view import ModelView
    from environments.target import Address, Target


class Attachment(Protocol):
    """Something that is kept with one environment."""

    def close(self) -> None:
        """Give up what is kept. The environment has been cleaned up. Called once."""


_Kept = TypeVar("_Kept", bound=Attachment)


class Attachments:
    """Those of one environment, one of each kind. They refer to each other as they like: nothing else holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[object, Attachment] = {}
        self._closed = False

    def get(self, kind: Callable[[], _Kept]) -> _Kept:
        """Return the one of a kind, made when it is first asked for; one that is closed already after `close`."""
        with self._lock:
            found = self._of_kind.get(kind)
            if found is None:
                found = kind()
                if self._closed:
                    found.close()
                else:
                    self._of_kind[kind] = found
            return found  # type: ignore[return-value]  # one kind has attachments of its own type

    def close(self) -> None:
        """Close all of them, and keep none from now on."""
        self._closed = True
        self.renew()

    def renew(self) -> None:
        """Close all of them, so that each is made anew when it is asked for."""
        with self._lock:
            kept, self._of_kind = list(self._of_kind.values()), {}
        for each in kept:
            each.close()


class BaseEnvironment(ABC):
    """A place where commands run.

    An environment starts on first use and is thread-safe. `execute` runs one command at a time in the session;
    `execute_oneshot` runs beside it. Leave the `with` block, or call `cleanup`, and nothing stays behind.

    The methods for files work whatever `execute` is doing. A relative path is taken from the session's working
    directory, and `~` is the target user's home. A name may hold any bytes: those that are not UTF-8 are surrogates, as
    in `os.fsdecode`. A path that ends in a slash means a directory.

    What is in the way at a path of the target is an error that is a `TargetFileError` and the builtin error of its
    name: FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError or FileExistsError, with `errno` and
    `filename`. In the same way a path of this machine that `put_file`, `get_file`, `put_dir` and `get_dir` are given is
    a plain builtin error. Whatever else goes wrong, on either side, is a TerminalError with the system's own reason.

    In a cancelled scope a method for files raises `CallCancelledError`, also in the middle, and leaves no part of a
    file. What `cleanup` cuts short says so.
    """

    backend: str = ""
    """The name the backend is registered under."""
    settings_class: ClassVar[type[BackendSettings]] = BackendSettings
    """The settings that this backend alone has."""
    internal: Internal
    """What this package, and a hook, runs in it."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        """Take the settings, and start nothing yet.

        Raises:
            SettingsError: A value cannot be understood, see `BackendSettings.check`, or the record cannot be written.
            UnsupportedError: The backend cannot do what is asked for.
        """
        self.settings_class.of(settings).check(settings)
        self.settings = settings
        self.gate = Gate(settings)
        """The hooks and rules that decide on what runs in it."""
        self.passthrough = Passthrough(settings.env_passthrough)
        """The variables of this process that are handed on to commands and scripts. More may be allowed at any time."""
        self._secrets = SecretValues(settings, self.passthrough)
        self.observation = Observation(settings, self._secrets)
        """Its observers, such as a record, and its operations."""
        self.attachments = Attachments()
        """What the tools keep with this environment. `cleanup` closes it in the end."""
        self.progress = Reporter(settings.env)
        """Tells `create_environment`'s `on_progress` how far starts and transfers are."""
        self._sessions = Sessions()
        self._file_calls = FileCalls()
        self._last_used = time.monotonic()

    # The backend.

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment of this backend: of this class, unless the settings ask for another way to have it.

        `create_environment` calls it. Arguments and errors are those of the class itself.
        """
        return cls(settings)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look for what the backend needs here, such as an engine or credentials, and start nothing.

        Args:
            settings: Say where to look.

        Returns:
            What was found, as one line for people; nothing where nothing is needed.

        Raises:
            TerminalError: It is not there. The message says what to do about it.
        """
        return ""

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        """Go through the targets of this backend that run or are kept, made by any process.

        A backend whose targets others can see, outlive a process that is killed, or are kept, extends this.
        `hermes-env ls` shows what it yields, `rm` removes it, and `gc` removes the orphans among it: they are known by
        the `Owner` that is written on each. A target is removed at once, while this goes on, or later.

        Raises:
            TerminalError: The backend cannot be looked at, as its engine does not answer.
        """
        return ()

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return how fast targets should be started, and the place in which that counts.

        Args:
            settings: Lead there.

        Raises:
            SettingsError: They cannot be understood.
        """
        return StartLimits(repr(settings.own_over) if settings.over else "")

    # Its life.

    @abstractmethod
    def prepare(self) -> None:
        """Start the target unless it is up, and open the session, so that the first command finds all ready.

        Raises:
            EnvironmentStartError: The target could not be started, or the session not be opened.
            TerminalError: The environment was cleaned up.
        """

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether what `prepare` has made is still there. The target is asked only where that is not told otherwise."""

    @abstractmethod
    def renew(self) -> None:
        """End all that was started in the environment, and have its next command begin a new session.

        The target stays as it is, with its files. Nobody may use the environment meanwhile.

        Raises:
            TerminalError: Something could not be ended, or the target is lost.
        """

    def set_network(self, network: str | Sequence[str]) -> None:
        """Change the list of hosts that the target can reach, see docs/security.md.

        Connections to hosts that are not in the new list are closed. `renew` brings back the list of the settings.

        Args:
            network: Hosts, as in the setting `network`; `none` is an empty list. `full` is for backends that hold the
                list by their own service.

        Raises:
            UnsupportedError: The backend cannot do it, or the environment was not made with a list.
            SettingsError: An entry cannot be understood.
        """
        raise UnsupportedError(
            f"backend {self.settings.env!r} cannot hold what runs in it to a list of hosts; use docker, bubblewrap or "
            "singularity, and make the environment with a list"
        )

    @abstractmethod
    def cleanup(self) -> None:
        """End everything this environment started, there and here. Safe to call twice; ends running commands."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    # What is known of it.

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do here. Starts the environment when it has not been started."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """What and where the target is, and how a person gets in. Starts the environment when it has not been started.

        Raises what `execute` raises when the target cannot be started.
        """

    @abstractmethod
    def address(self, port: int) -> Address:
        """Return where a TCP port of the target can be reached from this process, whether something listens or not.

        Starts the environment when it has not been started. The address holds until the target is lost or the
        environment is cleaned up.

        Args:
            port: The port, as programs in the target know it.

        Returns:
            Host and port here, and a URL for what speaks HTTP. `str()` of it is `host:port`.

        Raises:
            UnsupportedError: The backend, or a target with these settings, has no way to that port.
            EnvironmentStartError: The target could not be started.
            TypeError: The port is no number.
            ValueError: There is no such port.
        """

    @property
    @abstractmethod
    def cwd(self) -> str:
        """The session's working directory, as known from the last command that ended."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a command or a background process runs."""

    @property
    def idle_seconds(self) -> float:
        """How long nothing has used the environment; 0 while a command runs in it."""
        return 0.0 if self.busy else time.monotonic() - self._last_used

    def touch(self) -> None:
        """Note that the environment is in use, so that it does not count as idle."""
        self._last_used = time.monotonic()

    def model_view(self, *, strip: bool | None = None) -> ModelView:
        """Return the view that makes text of this environment fit for a model: without secrets and terminal controls.

        `env.model_view().captured(result.captured).with_count()` is the output of a command as a model gets it.

        Args:
            strip: Whether terminal controls are taken out; None is the setting `strip_ansi`.
        """
        from environments.model_view import ModelView  # which commands have no need of

        is_off = not self.settings.redact_secrets
        redactor = Redactor({}, is_off=True) if is_off else Redactor.of(self._secrets.known())
        return ModelView(redactor, self.settings.strip_ansi if strip is None else strip)

    # Commands.

    def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for it.

        The session keeps its working directory, exports, functions, aliases and shell options from one command to
        the next. One command runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters; or a program and its arguments, which no shell
                takes apart.
            options: See `CommandOptions`.

        Returns:
            The result, also for a command that failed, timed out or was interrupted. `cleanup()` interrupts a command
            that has begun.

        Raises:
            EnvironmentStartError: The target could not be started; a `StartStoppedError` if its start was stopped.
            EnvironmentLostError: The target went away while the command ran.
            TerminalError: The environment was cleaned up before the command began.
            DeniedError: A hook or a rule does not allow it, see docs/approvals.md.
            UnsupportedError: A `user` was given.
            TypeError: An argument is of a wrong type.
            ValueError: The command holds a NUL character, the timeout is not above 0, or the like.
        """
        return self._execution(command, **options).result()

    def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, beside whatever `execute` is doing, and change nothing in the session.

        It starts in the session's working directory with the target's own environment: what the session exported
        is not there, unless `session_env` asks for it. It is then as the session's last command left it. The result
        and errors are those of `execute`, but for `user`, which may be given.
        """
        return self._execution_beside(command, **options).result()

    def _in_session(self, command: CommandText, **options: Unpack[CommandOptions]) -> CheckedCommand:
        call = self._beside(command, **options)
        if call.user is not None:
            raise UnsupportedError(
                "execute runs commands as the user of its session; give user to execute_oneshot, start or session"
            )
        return call

    def _beside(self, command: CommandText, **options: Unpack[CommandOptions]) -> CheckedCommand:
        self.touch()
        return checked(command, self.settings.timeout, **options)

    def _execution(self, command: CommandText, **options: Unpack[CommandOptions]) -> Execution:
        return Execution(self, self._in_session(command, **options), "session", self.internal.run_in_session)

    def _execution_beside(self, command: CommandText, **options: Unpack[CommandOptions]) -> Execution:
        return Execution(self, self._beside(command, **options), "oneshot", self.internal.run_beside)

    @cancellable
    def start(self, command: CommandText, **options: Unpack[StartOptions]) -> Process:
        """Start a command in the background and return a handle to it.

        It sees the target's own environment and, without `session_env`, not what the session exported. It ends with
        the environment.

        Args:
            command: Shell text or a program and its arguments, as for `execute`.
            options: See `StartOptions`.

        Raises:
            UnsupportedError: The backend has no pty, or cannot run a command as that user.
            EnvironmentStartError: The target could not be started.
            DeniedError: A hook or a rule does not allow it.
            CallCancelledError: The scope of its caller was cancelled.
            TypeError: An argument is of a wrong type.
            ValueError: An argument has a value that cannot be.
        """
        self.touch()
        call, background = checked_start(command, **options)
        with self.observation.process(call, background.terminal is not None) as operation:
            if not self.gate.permits(call, lambda: self.internal.known_cwd, "background"):
                raise CallCancelledError("the scope was cancelled, so that the command was not started")
            background = background.copied(operation)
            process = run(lambda waiting: self.internal.run_in_background(waiting, call, background))
            return process.observed_by(operation, background.output_copy)

    @abstractmethod
    def interrupt(self) -> None:
        """End the command `execute` is running, from any thread, or a target's start. Without one, does nothing.

        Whoever waits for the start gets a `StartStoppedError`.
        """

    # Named sessions.

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
        runs_as = None if user is None else checked_user(user)
        return self._sessions.get(name, cwd, runs_as, self._new_session)

    @abstractmethod
    def _new_session(self, name: str, cwd: str | None, user: str | None) -> EnvironmentSession:
        """Make a session. Its shell is opened with its first command."""

    def close_sessions(self) -> None:
        """Close those that are open."""
        self._sessions.close()

    # Snapshots.

    def snapshot(self, name: str) -> str:
        """Keep the target's files as they are now, and return the image of them, to make other environments from.

        `create_environment` and `Pool` take it as the setting `image`, on the same backend. It holds files and
        installed packages. It holds no process, no variable of the session, and nothing that is mounted, such as `/tmp`
        of a container: docs/many-environments.md says what each backend keeps. It stays until it is removed, as by
        `hermes-env rm`. One of the same name is replaced; environments that were made from it go on.

        Starts the environment when it has not been started. A command that runs meanwhile goes on, and what it writes
        may be there or not.

        Args:
            name: 1 to 63 letters, digits, `_`, `.` and `-`, of which the first is a letter or a digit.

        Returns:
            The image, as the backend names it.

        Raises:
            UnsupportedError: The backend has no snapshots, or none of this target.
            EnvironmentStartError: The target could not be started.
            TerminalError: The snapshot could not be taken.
            TypeError: The name is no text.
            ValueError: The name cannot be that of a snapshot.
        """
        raise no_snapshots(self.settings.env)

    def fork(self) -> BaseEnvironment:
        """Return an environment on a copy of the target as it is now, with the same settings, hooks and directory.

        The copy holds what a snapshot holds. It starts on first use, and does not outlive the fork's `cleanup`, also
        with `container_persistent`. What was made for the fork alone is removed with it.

        Raises:
            UnsupportedError: The backend has no snapshots, or none of this target.
            EnvironmentStartError: The target could not be started.
            TerminalError: The copy could not be made.
        """
        raise no_snapshots(self.settings.env)

    # Files.

    @cached_property
    @abstractmethod
    def files(self) -> TargetFiles:
        """The thing that moves files and looks at entries."""

    @file_method
    async def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file in the target, replacing it in one step.

        Missing parent directories are made, but not the session's own. What is there already must be a regular file,
        or a link to one, that the target's user owns, though it may be read-only, or may write to. It keeps its
        permissions.

        Raises:
            TargetIsADirectoryError: There is a directory, or the path ends in a slash.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not write there, or replace that file.
            TargetFileNotFoundError: A parent directory is missing and cannot be made, as in `/proc`.
            TerminalError: It could not be written for another reason.
        """
        await self.files.write(checked_path(path), checked_data(data))

    @file_method
    async def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return a regular file of the target, or its beginning.

        Args:
            path: The file. Anything else, such as a pipe or a device, is not even opened.
            limit: Bytes to return at most, and to move; None is all of it.

        Raises:
            TargetFileNotFoundError: No such file.
            TargetIsADirectoryError: It is a directory.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not read it, or search a directory that it is in.
            TerminalError: It could not be read for another reason, such as being a pipe.
            ValueError: The limit is below 0.
        """
        return await self.files.read(checked_path(path), checked_limit(limit))

    def write_text(self, path: TargetPath, text: str, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Write text to a file in the target, as `write_bytes` does. Line ends stay as they are.

        Args:
            path: The file.
            text: Its new contents.
            encoding: The encoding of the file.
            errors: The treatment of characters that the encoding lacks, as in `str.encode`.

        Raises:
            UnicodeEncodeError: The encoding lacks a character; nothing was written.
            TerminalError: See `write_bytes`.
        """
        self.write_bytes(path, encoded_text(text, encoding, errors))

    def read_text(
        self, path: TargetPath, encoding: str = "utf-8", errors: str = "strict", limit: int | None = None
    ) -> str:
        """Return the text of a regular file of the target, or its beginning. Line ends stay as they are.

        Args:
            path: The file.
            encoding: The encoding of the file.
            errors: The treatment of bytes that are not text in it, as in `bytes.decode`: `replace`, `ignore`, or
                `surrogateescape`, which `write_text` writes back as they were.
            limit: Bytes to read at most, see `read_bytes`. A character that ends behind them is left out.

        Raises:
            UnicodeDecodeError: The file has bytes that are not text; it names the place of the first.
            TerminalError: See `read_bytes`.
            ValueError: The limit is below 0.
        """
        check_codec(encoding, errors)
        return decoded_text(self.read_bytes(path, limit), path, encoding, errors, limit)

    @file_method
    async def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a file from here to the target, with its permissions.

        The path there, and errors of it, are as for `write_bytes`: it names the file, not the directory to put it in.
        """
        from pathlib import Path  # which commands do without

        await self.files.put(Path(local), checked_path(remote))

    @file_method
    async def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file from the target to here, with its permissions.

        The path there, and errors of it, are as for `read_bytes`. What is here is replaced as `write_bytes` does it.
        """
        from environments.local_files import checked_destination  # which brings pathlib

        await self.files.get(checked_path(remote), checked_destination(local))

    @file_method
    async def put_dir(self, local: str | Path, remote: TargetPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from here to the target, as one stream.

        Files, directories and symbolic links are copied, with permissions and times in whole seconds; links are not
        followed. Sockets, pipes and devices are left out. What is there already and has no counterpart here stays; a
        link or a file that has one is replaced. The target needs `tar`.

        Args:
            local: The directory here.
            remote: The directory there, which is made; a path as for `write_bytes`. One that is there already keeps
                its own permissions and owner, as it may be a home.
            skip_unchanged: Whether to leave out regular files that have the same size and time there.

        Raises:
            NotADirectoryError: There is no such directory here.
            TargetNotADirectoryError: There is something else there, or the path leads through it.
            TargetPermissionError: The user may not make or change it, or a directory in it.
            TerminalError: It could not be copied, or not all of it, for another reason.
        """
        from pathlib import Path

        await self.files.put_dir(Path(local), checked_path(remote), skip_unchanged=skip_unchanged)

    @file_method
    async def get_dir(self, remote: TargetPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory with all that is in it from the target to here, as `put_dir` does the other way.

        A member that would be written outside of `local` is refused.

        Raises:
            TargetFileNotFoundError: There is no such directory in the target.
            TargetNotADirectoryError: There is something else.
            TargetPermissionError: The user may not read it, or something in it.
            TerminalError: It could not be copied, or not all of it.
        """
        from pathlib import Path

        await self.files.get_dir(checked_path(remote), Path(local), skip_unchanged=skip_unchanged)

    @file_method
    async def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return what kind of thing is at a path, its size, permissions, owner, and when it was changed.

        Args:
            path: The path.
            follow_symlinks: Whether it is asked of what a link points to, and not of the link itself.

        Raises:
            TargetFileNotFoundError: There is nothing, or only a link to nothing.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not search a directory on the way.
            TerminalError: It is not known for another reason.
        """
        return await self.files.stat(checked_path(path), follow=follow_symlinks)

    @file_method
    async def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return what is in a directory, sorted by name; of a link, what is known of the link itself.

        What is removed while the directory is read may be there or not.

        Raises:
            TargetFileNotFoundError: There is no such directory.
            TargetNotADirectoryError: It is something else, or the path leads through something else.
            TargetPermissionError: The user may not read it, or not search it.
            TerminalError: It could not be read for another reason.
        """
        return await self.files.entries(checked_path(path))

    @file_method
    async def mkdir(
        self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None
    ) -> None:
        """Make a directory.

        Args:
            path: The directory.
            parents: Whether to make missing parent directories, with the usual permissions.
            exist_ok: Whether it may be there already. It is then left as it is.
            mode: Its permission bits, whatever the umask is; None takes the usual ones.

        Raises:
            TargetFileExistsError: There is something else at the path, or a directory with `exist_ok=False`.
            TargetFileNotFoundError: A parent directory is missing.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not make it there.
            TerminalError: It could not be made for another reason.
            ValueError: The mode is no permission bits.
        """
        await self.files.mkdir(checked_path(path), parents=parents, exist_ok=exist_ok, mode=checked_mode(mode))

    @file_method
    async def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link and not what it points to, or a directory.

        Args:
            path: What to remove.
            recursive: Whether a directory is removed, with all that is in it. No link in it is followed.
            missing_ok: Whether it is no error that there is nothing.

        Raises:
            TargetFileNotFoundError: There is nothing.
            TargetIsADirectoryError: It is a directory, and `recursive` is false.
            TargetNotADirectoryError: The path leads through something that is no directory.
            TargetPermissionError: The user may not remove it, or something in it.
            TerminalError: It could not be removed, or not all of it, for another reason.
            ValueError: The path is the root directory, or ends in `.` or `..`.
        """
        await self.files.remove(checked_removable(path), recursive=recursive, missing_ok=missing_ok)

    @file_method
    async def exists(self, path: TargetPath) -> bool:
        """Return whether there is something at a path; a link to nothing is not something.

        Raises:
            TargetPermissionError: That cannot be known, as the user may not search a directory on the way.
            TerminalError: It is not known for another reason.
        """
        return await self.files.exists(checked_path(path))


def no_snapshots(backend: str) -> UnsupportedError:
    """Return the error of a backend without snapshots."""
    return UnsupportedError(
        f"backend {backend!r} cannot take snapshots or be forked; docker, also with Podman, modal and daytona can"
    )
