"""The base class of all environments: commands, sessions, files, snapshots and life cycle."""

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
from environments.progress import Reporter
from environments.redaction import Redactor
from environments.result import Capabilities, CommandResult
from environments.secrets import SecretValues
from environments.session import EnvironmentSession, Sessions
from environments.settings import BackendSettings, EnvironmentSettings
from environments.starting import StartLimits
from environments.variables import Passthrough

if TYPE_CHECKING:
    from pathlib import Path

    from environments.found_target import FoundTarget
    from environments.model_view import ModelView
    from environments.target import Address, Target


class Attachment(Protocol):
    """An object stored with an environment, such as the registry of background processes."""

    def close(self) -> None:
        """Release the attachment. Called once, after the environment's cleanup."""


_Kept = TypeVar("_Kept", bound=Attachment)


class Attachments:
    """The attachments of one environment, at most one of each kind.

    References between attachments are harmless: the environment alone holds them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_kind: dict[object, Attachment] = {}
        self._closed = False

    def get(self, kind: Callable[[], _Kept]) -> _Kept:
        """Return the attachment of a kind, created on first use. After `close` a new attachment is returned closed."""
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
        """Close all attachments, now and in the future."""
        self._closed = True
        self.renew()

    def renew(self) -> None:
        """Close all attachments. Each is created anew on its next use."""
        with self._lock:
            kept, self._of_kind = list(self._of_kind.values()), {}
        for each in kept:
            each.close()


class BaseEnvironment(ABC):
    """An environment: runs commands in a target, which is this machine, a container, a remote host or a cloud sandbox.

    The target starts on first use. All methods are thread-safe. `execute` runs commands one at a time in a shell
    session; `execute_oneshot` and `start` run beside the session. Leave the `with` block, or call `cleanup`, to end all
    processes and remove the target.

    File methods run in parallel to `execute`. A relative path starts at the session's working directory; `~` is the
    target user's home. A trailing slash means a directory. Bytes of a name that are not UTF-8 are surrogates, as in
    `os.fsdecode`.

    A file method raises a `TargetFileError` for an obstacle at the target's path. The error is also a builtin
    FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError or FileExistsError, with `errno` and
    `filename`. For a local path of `put_file`, `get_file`, `put_dir` or `get_dir`, the builtin error is raised alone.
    Any other failure, on either side, is a TerminalError with the system's reason.

    In a cancelled scope a file method raises `CallCancelledError`, also half way, and leaves no partial file. A file
    method interrupted by `cleanup` raises a TerminalError.
    """

    backend: str = ""
    """Registered name of the backend."""
    settings_class: ClassVar[type[BackendSettings]] = BackendSettings
    """Class of the backend's own settings."""
    internal: Internal
    """Internal commands of this package and of hooks."""

    def __init__(self, settings: EnvironmentSettings) -> None:
        """Store the settings. The target starts on first use.

        Args:
            settings: Settings as returned by `load_settings`.

        Raises:
            SettingsError: A value is malformed, see `BackendSettings.check`, or the record cannot be written.
            UnsupportedError: The backend does not support a requested setting.
        """
        self.settings_class.of(settings).check(settings)
        self.settings = settings
        self.gate = Gate(settings)
        """Hooks and rules: permit or deny each command, script and tool call."""
        self.passthrough = Passthrough(settings.env_passthrough)
        """Variables of this process that commands and scripts receive. More names may be allowed at any time."""
        self._secrets = SecretValues(settings, self.passthrough)
        self.observation = Observation(settings, self._secrets)
        """Operations and their observers, such as a record."""
        self.attachments = Attachments()
        """Objects that the tools store with this environment. `cleanup` closes them last."""
        self.progress = Reporter(settings.env)
        """Reports the progress of starts and transfers to the `on_progress` of `create_environment`."""
        self._sessions = Sessions()
        self.file_calls = FileCalls()
        self._last_used = time.monotonic()

    # The backend.

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment of this class, or of another class if the settings ask for another way to the target.

        Called by `create_environment`. Arguments and errors are those of the constructor.
        """
        return cls(settings)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Check the requirements of the backend, such as an engine or credentials. Starts no target.

        Args:
            settings: Settings that lead to the engine or service.

        Returns:
            The finding as a line for people; empty for a backend without requirements.

        Raises:
            TerminalError: A requirement is missing. The message names the remedy.
        """
        return ""

    @classmethod
    def list_targets(cls) -> Iterable[FoundTarget]:
        """Yield the running and the kept targets of this backend, started by any process.

        Override this for targets that are visible to other processes, survive a killed process, or persist.
        `hermes-env ls` lists them, `rm` removes them, and `gc` removes the orphans. The `Owner` written on each target
        tells an orphan. A target may be removed during the iteration or later.

        Raises:
            TerminalError: The targets cannot be listed, such as when the engine does not answer.
        """
        return ()

    @classmethod
    def start_limits(cls, settings: EnvironmentSettings) -> StartLimits:
        """Return the rate limits for starts, and the place they apply to.

        Args:
            settings: Settings that lead to the engine, host or service.

        Raises:
            SettingsError: The settings are malformed.
        """
        return StartLimits(repr(settings.own_over) if settings.over else "")

    # Its life.

    @abstractmethod
    def prepare(self) -> None:
        """Start the target and open the session, unless both are up. The next command then runs without delay.

        Raises:
            EnvironmentStartError: The target could not be started, or the session could not be opened.
            TerminalError: The environment was cleaned up.
        """

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """True while the target and session of `prepare` are up. Asks the target only if the connection cannot tell."""

    @abstractmethod
    def renew(self) -> None:
        """Reset the environment for the next user: end all its processes. The next command opens a new session.

        The target keeps running and keeps its files. No other thread may use the environment meanwhile.

        Raises:
            TerminalError: A process could not be ended, or the target is lost.
        """

    def set_network(self, network: str | Sequence[str]) -> None:
        """Change the list of hosts that the target can reach, see docs/security.md.

        Connections to hosts outside of the new list are closed. `renew` restores the list of the settings.

        Args:
            network: Hosts, as in the setting `network`. `none` is an empty list. `full` is for backends whose own
                service enforces the list.

        Raises:
            UnsupportedError: The backend cannot change the list, or the environment was created without a list.
            SettingsError: An entry is malformed.
        """
        raise UnsupportedError(
            f"backend {self.settings.env!r} cannot restrict the network to a list of hosts; use docker, bubblewrap or "
            "singularity, and create the environment with a list"
        )

    @abstractmethod
    def cleanup(self) -> None:
        """End all processes of this environment and remove the target, unless the settings keep the target.

        Running commands are interrupted. A second call does nothing.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cleanup()

    # State.

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Features of the backend on this target. Starts the environment if needed."""

    @property
    @abstractmethod
    def target(self) -> Target:
        """The kind, name and place of the target, and the command to log in. Starts the environment if needed.

        Raises:
            EnvironmentStartError: The target could not be started.
        """

    @abstractmethod
    def address(self, port: int) -> Address:
        """Return the address by which this process reaches a TCP port of the target, even if no server listens yet.

        Starts the environment if needed. The address is valid until the target is lost or the environment is cleaned
        up.

        Args:
            port: Port number inside of the target, 1 to 65535.

        Returns:
            Host and port on this side, and a URL for HTTP servers. `str()` returns `host:port`.

        Raises:
            UnsupportedError: The backend, or the target with these settings, has no route to the port.
            EnvironmentStartError: The target could not be started.
            TypeError: The port is not a whole number.
            ValueError: The port is out of range.
        """

    @property
    @abstractmethod
    def cwd(self) -> str:
        """Working directory of the session after its last finished command."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """True while a command or a background process runs."""

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last use; 0 while a command runs."""
        return 0.0 if self.busy else time.monotonic() - self._last_used

    def touch(self) -> None:
        """Mark the environment as used: resets `idle_seconds`."""
        self._last_used = time.monotonic()

    def model_view(self, *, strip: bool | None = None) -> ModelView:
        """Return a view that prepares text of the target for a model: redacts secrets and strips terminal controls.

        `env.model_view().captured(result.captured).with_count()` is the output of a command for a model.

        Args:
            strip: True to strip terminal controls; None uses the setting `strip_ansi`.
        """
        from environments.model_view import ModelView  # not needed by commands

        is_off = not self.settings.redact_secrets
        redactor = Redactor({}, is_off=True) if is_off else Redactor.of(self._secrets.known())
        return ModelView(redactor, self.settings.strip_ansi if strip is None else strip)

    # Commands.

    def execute(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command in the session and wait for the result.

        The session keeps working directory, exports, functions, aliases and shell options between commands. One command
        runs at a time; a second caller waits.

        Args:
            command: Shell text of any length, without NUL characters; or a list of a program and its arguments, passed
                to the program without shell expansion.
            options: See `CommandOptions`.

        Returns:
            The result, also of a command that failed, timed out or was interrupted. `cleanup()` interrupts a running
            command.

        Raises:
            EnvironmentStartError: The target could not be started; a `StartStoppedError` if the start was stopped.
            EnvironmentLostError: The target was lost while the command ran.
            TerminalError: The environment was cleaned up before the command began.
            DeniedError: A hook or a rule denied the command, see docs/approvals.md.
            UnsupportedError: The option `user` was given.
            TypeError: An argument has the wrong type.
            ValueError: The command holds a NUL character, the timeout is not above 0, or another value is out of range.
        """
        return self._execution(command, **options).result()

    def execute_oneshot(self, command: CommandText, **options: Unpack[CommandOptions]) -> CommandResult:
        """Run a command at once, in parallel to `execute`, without any effect on the session.

        The command starts in the session's working directory with the target's own environment. With `session_env` it
        also receives the session's exports, as of the session's last finished command. Result and errors are those of
        `execute`, except that `user` is allowed.
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
        """Start a command in the background and return its handle.

        The command receives the target's own environment, plus the session's exports with `session_env`. The process
        ends with the environment.

        Args:
            command: Shell text, or a list of a program and its arguments, as for `execute`.
            options: See `StartOptions`.

        Returns:
            A handle for input, output, signals and the exit code.

        Raises:
            UnsupportedError: The backend has no pty, or cannot run a command as the given user.
            EnvironmentStartError: The target could not be started.
            DeniedError: A hook or a rule denied the command.
            CallCancelledError: The caller's scope was cancelled.
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range.
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
        """End the running command of `execute`, or stop the target's start, from any thread.

        Callers that wait for the start receive a `StartStoppedError`.
        """

    # Named sessions.

    def session(self, name: str, *, cwd: str | None = None, user: str | int | None = None) -> EnvironmentSession:
        """Return the named session, opened on first use.

        The session has its own shell, without the exports and definitions of other sessions. `execute`, `cwd` and
        `interrupt` of the environment always use the unnamed session. A session ends on `close`, or with the
        environment.

        Args:
            name: Any text except `"default"`.
            cwd: Initial directory, absolute or starting with `~`; None uses `settings.cwd`.
            user: User of the target that runs the commands, by name or number; None is the target's default user.

        Returns:
            The session; the same object for the same name while the session is open.

        Raises:
            UnsupportedError: The target cannot run a shell as that user, or supports a single session only.
            TerminalError: 64 sessions are open.
            TypeError: An argument has the wrong type.
            ValueError: An argument is out of range, or the name belongs to an open session of another user.
        """
        runs_as = None if user is None else checked_user(user)
        return self._sessions.get(name, cwd, runs_as, self._new_session)

    @abstractmethod
    def _new_session(self, name: str, cwd: str | None, user: str | None) -> EnvironmentSession:
        """Create a session. The shell opens with the first command."""

    def close_sessions(self) -> None:
        """Close all named sessions."""
        self._sessions.close()

    # Snapshots.

    def snapshot(self, name: str) -> str:
        """Save the target's files as an image for new environments.

        Pass the image as the setting `image` to `create_environment` or `Pool`, on the same backend. The image holds
        files and installed packages. Processes, session variables and mounts, such as `/tmp` of a container, are not
        saved: docs/many-environments.md lists the details of each backend. The image stays until removed, such as by
        `hermes-env rm`. A second snapshot replaces the first of the same name; environments created from the first keep
        running.

        Starts the environment if needed. A running command goes on; files written meanwhile may be missing from the
        image.

        Args:
            name: 1 to 63 letters, digits, `_`, `.` and `-`, beginning with a letter or a digit.

        Returns:
            The image, by the backend's name.

        Raises:
            UnsupportedError: The backend has no snapshots, or none of this target.
            EnvironmentStartError: The target could not be started.
            TerminalError: The snapshot failed.
            TypeError: The name is not text.
            ValueError: The name is malformed.
        """
        raise no_snapshots(self.settings.env)

    def fork(self) -> BaseEnvironment:
        """Return a new environment on a copy of the target, with the same settings, hooks and working directory.

        The copy holds the contents of a snapshot and starts on first use. The fork's `cleanup` removes the copy, also
        with `container_persistent`, and any image made for the fork.

        Raises:
            UnsupportedError: The backend has no snapshots, or none of this target.
            EnvironmentStartError: The target could not be started.
            TerminalError: The copy failed.
        """
        raise no_snapshots(self.settings.env)

    # Files.

    @cached_property
    @abstractmethod
    def files(self) -> TargetFiles:
        """The implementation of all file methods, as coroutines."""

    @file_method
    async def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file in the target, replaced atomically.

        Missing parent directories are created, except the session's own directory. An existing file must be a regular
        file, or a link to a regular file. The target's user must own the file, which may then be read-only, or have
        write permission. An existing file keeps its permissions.

        Args:
            path: Path in the target.
            data: New contents.

        Raises:
            TargetIsADirectoryError: The path is a directory, or ends in a slash.
            TargetNotADirectoryError: A parent of the path is not a directory.
            TargetPermissionError: The user may not write in the directory, or replace the file.
            TargetFileNotFoundError: A parent directory is missing and cannot be created, such as in `/proc`.
            TerminalError: The write failed for another reason.
        """
        await self.files.write(checked_path(path), checked_data(data))

    @file_method
    async def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return the contents of a regular file in the target.

        Args:
            path: Path in the target. Pipes and devices are refused unopened.
            limit: Maximum bytes to transfer and return; None is the whole file.

        Raises:
            TargetFileNotFoundError: The file does not exist.
            TargetIsADirectoryError: The path is a directory.
            TargetNotADirectoryError: A parent of the path is not a directory.
            TargetPermissionError: The user may not read the file, or search a parent directory.
            TerminalError: The read failed for another reason, such as a pipe at the path.
            ValueError: The limit is below 0.
        """
        return await self.files.read(checked_path(path), checked_limit(limit))

    def write_text(self, path: TargetPath, text: str, encoding: str = "utf-8", errors: str = "strict") -> None:
        """Write text to a file in the target, as `write_bytes` does. Line ends stay unchanged.

        Args:
            path: Path in the target.
            text: New contents.
            encoding: Encoding of the file.
            errors: Treatment of characters missing from the encoding, as in `str.encode`.

        Raises:
            UnicodeEncodeError: A character is missing from the encoding. The file stays unchanged.
            TerminalError: See `write_bytes`.
        """
        self.write_bytes(path, encoded_text(text, encoding, errors))

    def read_text(
        self, path: TargetPath, encoding: str = "utf-8", errors: str = "strict", limit: int | None = None
    ) -> str:
        """Return the text of a regular file in the target. Line ends stay unchanged.

        Args:
            path: Path in the target.
            encoding: Encoding of the file.
            errors: Treatment of undecodable bytes, as in `bytes.decode`: `replace`, `ignore`, or `surrogateescape`,
                which `write_text` turns back into the same bytes.
            limit: Maximum bytes to read, see `read_bytes`. A character cut by the limit is dropped.

        Raises:
            UnicodeDecodeError: The file holds undecodable bytes. The error holds the position of the first.
            TerminalError: See `read_bytes`.
            ValueError: The limit is below 0.
        """
        check_codec(encoding, errors)
        return decoded_text(self.read_bytes(path, limit), path, encoding, errors, limit)

    @file_method
    async def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a local file to the target, with its permissions.

        Args:
            local: Path of a regular file on this machine.
            remote: Path of the file in the target, not of a directory for the file; errors as for `write_bytes`.
        """
        from pathlib import Path  # not needed by commands

        await self.files.put(Path(local), checked_path(remote))

    @file_method
    async def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file of the target to this machine, with its permissions.

        Args:
            remote: Path in the target; errors as for `read_bytes`.
            local: Path on this machine. An existing file is replaced as by `write_bytes`.
        """
        from environments.local_files import checked_destination  # imports pathlib

        await self.files.get(checked_path(remote), checked_destination(local))

    @file_method
    async def put_dir(self, local: str | Path, remote: TargetPath, *, skip_unchanged: bool = False) -> None:
        """Copy a local directory tree to the target, as one stream.

        Files, directories and symbolic links are copied, with permissions and times in whole seconds. Links are not
        followed. Sockets, pipes and devices are skipped. Entries of the target without a counterpart stay; a link or
        file with a counterpart is replaced. The target needs `tar`.

        Args:
            local: Directory on this machine.
            remote: Directory in the target, created if missing; a path as for `write_bytes`. An existing directory,
                such as a home, keeps its own permissions and owner.
            skip_unchanged: True to skip regular files whose size and time are equal in the target.

        Raises:
            NotADirectoryError: The local directory does not exist.
            TargetNotADirectoryError: The target's path, or a parent, is not a directory.
            TargetPermissionError: The user may not create or change the directory or an entry.
            TerminalError: The copy failed, or is incomplete, for another reason.
        """
        from pathlib import Path

        await self.files.put_dir(Path(local), checked_path(remote), skip_unchanged=skip_unchanged)

    @file_method
    async def get_dir(self, remote: TargetPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory tree of the target to this machine, the reverse of `put_dir`.

        A member whose path leaves `local` is refused.

        Args:
            remote: Directory in the target.
            local: Directory on this machine, created if missing.
            skip_unchanged: True to skip regular files whose size and time are equal on this machine.

        Raises:
            TargetFileNotFoundError: The directory does not exist.
            TargetNotADirectoryError: The path is not a directory.
            TargetPermissionError: The user may not read the directory or an entry.
            TerminalError: The copy failed or is incomplete.
        """
        from pathlib import Path

        await self.files.get_dir(checked_path(remote), Path(local), skip_unchanged=skip_unchanged)

    @file_method
    async def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return the kind, size, permissions, owner and modification time of a path.

        Args:
            path: Path in the target.
            follow_symlinks: True to describe the file behind a link; False to describe the link.

        Raises:
            TargetFileNotFoundError: The path does not exist, or is a dangling link.
            TargetNotADirectoryError: A parent of the path is not a directory.
            TargetPermissionError: The user may not search a parent directory.
            TerminalError: The status is unknown for another reason.
        """
        return await self.files.stat(checked_path(path), follow=follow_symlinks)

    @file_method
    async def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return the entries of a directory, sorted by name. Links are not followed.

        Entries removed during the read may be listed or not.

        Args:
            path: Directory in the target; by default the session's working directory.

        Raises:
            TargetFileNotFoundError: The directory does not exist.
            TargetNotADirectoryError: The path, or a parent, is not a directory.
            TargetPermissionError: The user may not read or search the directory.
            TerminalError: The read failed for another reason.
        """
        return await self.files.entries(checked_path(path))

    @file_method
    async def mkdir(
        self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None
    ) -> None:
        """Create a directory.

        Args:
            path: Path in the target.
            parents: True to create missing parent directories, with default permissions.
            exist_ok: True to accept an existing directory, left unchanged.
            mode: Permission bits, independent of the umask; None is the default.

        Raises:
            TargetFileExistsError: The path exists and is not a directory, or `exist_ok` is False.
            TargetFileNotFoundError: A parent directory is missing.
            TargetNotADirectoryError: A parent of the path is not a directory.
            TargetPermissionError: The user may not create the directory.
            TerminalError: The directory could not be created for another reason.
            ValueError: The mode holds other bits than permissions.
        """
        await self.files.mkdir(checked_path(path), parents=parents, exist_ok=exist_ok, mode=checked_mode(mode))

    @file_method
    async def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove a file, a link or a directory. The file behind a link stays.

        Args:
            path: Path in the target.
            recursive: True to remove a directory with all its contents. Links inside are not followed.
            missing_ok: True to ignore a missing path.

        Raises:
            TargetFileNotFoundError: The path does not exist.
            TargetIsADirectoryError: The path is a directory, and `recursive` is False.
            TargetNotADirectoryError: A parent of the path is not a directory.
            TargetPermissionError: The user may not remove the path or a part of its contents.
            TerminalError: The removal failed, or is incomplete, for another reason.
            ValueError: The path is the root directory, or ends in `.` or `..`.
        """
        await self.files.remove(checked_removable(path), recursive=recursive, missing_ok=missing_ok)

    @file_method
    async def exists(self, path: TargetPath) -> bool:
        """Return True if the path exists. A dangling link counts as missing.

        Args:
            path: Path in the target.

        Raises:
            TargetPermissionError: The user may not search a parent directory.
            TerminalError: The answer is unknown for another reason.
        """
        return await self.files.exists(checked_path(path))


def no_snapshots(backend: str) -> UnsupportedError:
    """Return the error of a backend without snapshots."""
    return UnsupportedError(
        f"backend {backend!r} cannot take snapshots or be forked; use docker, also with Podman, modal or daytona"
    )
