"""What an environment does with files, through the shell where a backend has nothing better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from environments.arguments import checked_data, checked_limit, checked_mode, checked_path, checked_removable
from environments.progress import Reporter
from environments.settings import EnvironmentSettings
from environments.shell.transfer import Runner
from environments.target_files import TargetFiles, TargetPath

if TYPE_CHECKING:
    from pathlib import Path

    from environments.file_status import FileStatus
    from environments.shell.directories import Directories
    from environments.shell.entries import Entries
    from environments.shell.files import ShellFiles


class FileMethods(TargetFiles):
    """The file methods of an environment whose files are reached through shells, see `TargetFiles`."""

    settings: EnvironmentSettings
    progress: Reporter
    _files: ShellFiles
    internal: Runner

    def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file, see `TargetFiles`."""
        self._files.write(checked_path(path), checked_data(data))

    def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return a file, see `TargetFiles`."""
        return self._files.read(checked_path(path), checked_limit(limit))

    def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a file, see `TargetFiles`."""
        from pathlib import Path  # which commands do without

        self._files.put(Path(local), checked_path(remote))

    def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file, see `TargetFiles`."""
        from environments.atomic_file import checked_destination  # which brings pathlib, and commands do without

        self._files.get(checked_path(remote), checked_destination(local))

    def put_dir(self, local: str | Path, remote: TargetPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `TargetFiles`."""
        from pathlib import Path

        self._directories().put(Path(local), checked_path(remote), skip_unchanged)

    def get_dir(self, remote: TargetPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `TargetFiles`."""
        from pathlib import Path

        self._directories().get(checked_path(remote), Path(local), skip_unchanged)

    def _directories(self) -> Directories:
        from environments.shell.directories import Directories  # few need it, and tarfile takes its time

        return Directories(self.internal, self.settings.env, self.progress)

    def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return what is at a path, see `TargetFiles`."""
        return self._entries().stat(checked_path(path), follow=follow_symlinks)

    def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return what is in a directory, see `TargetFiles`."""
        return self._entries().listed(checked_path(path))

    def mkdir(self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None) -> None:
        """Make a directory, see `TargetFiles`."""
        self._entries().make(checked_path(path), parents=parents, exist_ok=exist_ok, mode=checked_mode(mode))

    def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove what is at a path, see `TargetFiles`."""
        self._entries().remove(checked_removable(path), recursive=recursive, missing_ok=missing_ok)

    def exists(self, path: TargetPath) -> bool:
        """Return whether something is at a path, see `TargetFiles`."""
        return self._entries().exists(checked_path(path))

    def _entries(self) -> Entries:
        from environments.shell.entries import Entries  # the same

        return Entries(self.internal, self.settings.env, self.progress)
