"""Commands on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from environments.child_stream import ChildStream
from environments.limits import refuse_unenforced
from environments.local_files import copy_file, read_file, replace_file
from environments.persistent_shell import PersistentShellEnvironment
from environments.settings import EnvironmentSettings
from environments.stream import Stream, Terminal


class LocalEnvironment(PersistentShellEnvironment):
    """Runs commands on this machine, as this user, with this process's environment."""

    backend = "local"
    same_machine = True

    def __init__(self, settings: EnvironmentSettings) -> None:
        refuse_unenforced(settings, enforced=frozenset())
        super().__init__(settings)

    def start_target(self) -> None:
        """There is nothing to bring up."""

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        """Start a child process, see `StreamOpener`."""
        return ChildStream(argv, terminal=terminal)

    def stop_target(self) -> None:
        """There is nothing to take down."""

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, see `BaseEnvironment`."""
        replace_file(self._resolve(path), lambda file: file.write(data))

    def read_bytes(self, path: str) -> bytes:
        """Return a file, see `BaseEnvironment`."""
        return read_file(self._resolve(path))

    def put_file(self, local: str | Path, remote: str | PurePosixPath) -> None:
        """Copy a file, see `BaseEnvironment`."""
        copy_file(Path(local), self._resolve(str(remote)))

    def get_file(self, remote: str | PurePosixPath, local: str | Path) -> None:
        """Copy a file, see `BaseEnvironment`."""
        copy_file(self._resolve(str(remote)), Path(local))

    def _resolve(self, path: str) -> Path:
        expanded = Path(path).expanduser()
        return expanded if expanded.is_absolute() else Path(self.cwd) / expanded
