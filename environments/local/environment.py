"""Commands on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from environments.atomic_file import replace_file
from environments.base import BaseEnvironment
from environments.call import checked_data, checked_path
from environments.errors import TerminalError, UnsupportedError
from environments.local.files import copy_file, read_file
from environments.local.settings import LocalSettings
from environments.owner import Orphan
from environments.settings import EnvironmentSettings
from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.garbage import orphans_in
from environments.shell.stream import Stream, Terminal
from environments.sources import load_settings


class LocalEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine, as this user, with this process's environment."""

    backend = "local"
    settings_class = LocalSettings
    same_machine = True
    starts_apart = False

    def __init__(self, settings: EnvironmentSettings) -> None:
        if LocalSettings.of(settings).sandbox != "none":
            raise UnsupportedError(
                "LocalEnvironment has no sandbox, and local_sandbox asks for one; make it with create_environment"
            )
        super().__init__(settings)

    @classmethod
    def create(cls, settings: EnvironmentSettings) -> BaseEnvironment:
        """Build an environment, in a sandbox if the settings ask for one, see `BaseEnvironment`."""
        if LocalSettings.of(settings).sandbox == "none":
            return cls(settings)
        from environments.local.bubblewrap.environment import SandboxedEnvironment  # most never need it

        return SandboxedEnvironment(settings)

    @classmethod
    def probe(cls, settings: EnvironmentSettings) -> str:
        """Look whether there can be a sandbox, see `BaseEnvironment`. There has to be one only if it is asked for."""
        from environments.local.bubblewrap.refusal import trial

        if LocalSettings.of(settings).sandbox != "none":
            return f"in a sandbox: {trial()}"
        try:
            return f"a sandbox can be had: {trial()}"
        except TerminalError as error:
            return str(error)

    @classmethod
    def find_orphans(cls) -> Iterator[Orphan]:
        """Find what environments, of any backend, have left on this machine outside of containers."""
        with LocalEnvironment(load_settings("local", sandbox="none")) as env:
            yield from orphans_in(env)

    def start_target(self) -> None:
        """There is nothing to bring up."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a child process, see `StreamOpener`."""
        return ChildStream(argv, terminal=terminal)

    def stop_target(self) -> None:
        """There is nothing to take down."""

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment`."""
        content = checked_data(data)
        replace_file(self._resolve(path), lambda file: file.write(content))

    def read_bytes(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment`."""
        return read_file(self._resolve(path))

    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file, see `BaseEnvironment`."""
        copy_file(Path(local), self._resolve(remote), f"uploading {remote}", self.progress)

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        copy_file(self._resolve(remote), Path(local), f"downloading {remote}", self.progress)

    def write_scratch(self, path: str, data: bytes) -> None:
        """Write a file of ours, see `PersistentShellEnvironment`."""
        replace_file(Path(path), lambda file: file.write(data), 0o600)

    def _resolve(self, path: str | PurePosixPath) -> Path:
        """Return a path; what is relative is taken from the session's directory, which is not made anew."""
        self.life.ensure_started()
        expanded = Path(checked_path(path)).expanduser()
        if expanded.is_absolute():
            return expanded
        if not (place := Path(self.cwd)).is_dir():
            raise TerminalError(f"cannot take {path} from the session's directory {place}, which is not there any more")
        return place / expanded
