"""Commands on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from environments.atomic_file import replace_file
from environments.call import checked_data, checked_path
from environments.errors import TerminalError
from environments.local.files import copy_file, read_file
from environments.local.settings import LocalSettings
from environments.owner import Orphan
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

    @classmethod
    def find_orphans(cls) -> Iterator[Orphan]:
        """Find what environments, of any backend, have left on this machine outside of containers."""
        with LocalEnvironment(load_settings("local")) as env:
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
        copy_file(Path(local), self._resolve(remote))

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        copy_file(self._resolve(remote), Path(local))

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
