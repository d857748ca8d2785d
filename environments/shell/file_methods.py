"""What an environment does with files, through the shell where a backend has nothing better."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from environments.files import TargetFiles, TargetPath, file_method
from environments.options import checked_data, checked_limit, checked_mode, checked_path, checked_removable
from environments.settings import EnvironmentSettings

if TYPE_CHECKING:
    from pathlib import Path

    from environments.files import FileStatus
    from environments.shell.directories import Directories
    from environments.shell.files import ShellFiles
    from environments.shell.transfer import Runner


class FileMethods(TargetFiles):
    """The file methods of an environment whose files are reached through shells, see `TargetFiles`."""

    settings: EnvironmentSettings
    internal: Runner

    @cached_property
    def files(self) -> ShellFiles:
        """What moves files and looks at entries. A backend may have something better."""
        from environments.shell.files import ShellFiles  # most commands need no file

        return ShellFiles(self.internal, self.settings.env, self.progress)

    def _directories(self) -> Directories:
        from environments.shell.directories import Directories  # few need it, and tarfile takes its time

        return Directories(self.files)

    @file_method
    async def write_bytes(self, path: TargetPath, data: bytes) -> None:
        """Write a file, see `TargetFiles`."""
        await self.files.write(checked_path(path), checked_data(data))

    @file_method
    async def read_bytes(self, path: TargetPath, limit: int | None = None) -> bytes:
        """Return a file, see `TargetFiles`."""
        return await self.files.read(checked_path(path), checked_limit(limit))

    @file_method
    async def put_file(self, local: str | Path, remote: TargetPath) -> None:
        """Copy a file, see `TargetFiles`."""
        from pathlib import Path  # which commands do without

        await self.files.put(Path(local), checked_path(remote))

    @file_method
    async def get_file(self, remote: TargetPath, local: str | Path) -> None:
        """Copy a file, see `TargetFiles`."""
        from environments.local_files import checked_destination  # which brings pathlib, and commands do without

        await self.files.get(checked_path(remote), checked_destination(local))

    @file_method
    async def put_dir(self, local: str | Path, remote: TargetPath, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `TargetFiles`."""
        from pathlib import Path

        await self._directories().put(Path(local), checked_path(remote), skip_unchanged)

    @file_method
    async def get_dir(self, remote: TargetPath, local: str | Path, *, skip_unchanged: bool = False) -> None:
        """Copy a directory, see `TargetFiles`."""
        from pathlib import Path

        await self._directories().get(checked_path(remote), Path(local), skip_unchanged)

    @file_method
    async def stat(self, path: TargetPath, *, follow_symlinks: bool = True) -> FileStatus:
        """Return what is at a path, see `TargetFiles`."""
        return await self.files.stat(checked_path(path), follow=follow_symlinks)

    @file_method
    async def list_dir(self, path: TargetPath = ".") -> list[FileStatus]:
        """Return what is in a directory, see `TargetFiles`."""
        return await self.files.entries(checked_path(path))

    @file_method
    async def mkdir(
        self, path: TargetPath, *, parents: bool = True, exist_ok: bool = True, mode: int | None = None
    ) -> None:
        """Make a directory, see `TargetFiles`."""
        await self.files.mkdir(checked_path(path), parents=parents, exist_ok=exist_ok, mode=checked_mode(mode))

    @file_method
    async def remove(self, path: TargetPath, *, recursive: bool = False, missing_ok: bool = False) -> None:
        """Remove what is at a path, see `TargetFiles`."""
        await self.files.remove(checked_removable(path), recursive=recursive, missing_ok=missing_ok)

    @file_method
    async def exists(self, path: TargetPath) -> bool:
        """Return whether something is at a path, see `TargetFiles`."""
        return await self.files.exists(checked_path(path))
