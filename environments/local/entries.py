"""Looking at, making and removing files and directories of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import shutil
import stat
from pathlib import Path

from environments.arguments import means_directory
from environments.atomic_file import make_folders
from environments.errors import NOTHING_THERE
from environments.file_status import FileStatus
from environments.local.files import in_target, path_of


class LocalEntry:
    """An entry of a directory of this machine.

    Args:
        given: Its path, as the caller gave it.
        place: The same, absolute.
    """

    def __init__(self, given: str, place: str) -> None:
        self._given = given
        self._place = place

    def stat(self, *, follow: bool) -> FileStatus:
        """Return what it is, see `TargetFiles.stat`."""
        with in_target("look at", self._given):
            return _status(self._given, path_of(self._place), follow=follow or means_directory(self._place))

    def listed(self) -> list[FileStatus]:
        """Return what is in it, see `TargetFiles.list_dir`."""
        found = []
        with in_target("list", self._given):
            for path in sorted(Path(self._place).iterdir(), key=lambda path: path.name):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found.append(_status(posixpath.join(self._given, path.name), path, follow=False))
        return found

    def make(self, *, parents: bool, exist_ok: bool, mode: int | None) -> None:
        """Make it a directory, see `TargetFiles.mkdir`."""
        path = Path(self._place)
        with in_target("make directory", self._given):
            if parents:
                make_folders(path.parent)
            try:
                path.mkdir()
            except FileExistsError:
                if not exist_ok or not path.is_dir():
                    raise
            else:
                if mode is not None:
                    path.chmod(mode)

    def remove(self, *, recursive: bool, missing_ok: bool) -> None:
        """Remove it, see `TargetFiles.remove`."""
        path = Path(self._place)
        with in_target("remove", self._given):
            try:
                is_directory = stat.S_ISDIR(path.lstat().st_mode)
            except FileNotFoundError:
                if missing_ok:
                    return
                raise
            if is_directory and not recursive:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if is_directory:
                shutil.rmtree(path)
            elif self._place.endswith("/"):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            else:
                path.unlink()

    def exists(self) -> bool:
        """Return whether it is there, see `TargetFiles.exists`."""
        with in_target("look at", self._given):
            try:
                path_of(self._place).stat()
            except OSError as error:
                if error.errno not in NOTHING_THERE:
                    raise
                return False
            return True


def _status(given: str, path: Path, *, follow: bool) -> FileStatus:
    found = path.stat(follow_symlinks=follow)
    link = os.readlink(path) if stat.S_ISLNK(found.st_mode) else None  # noqa: PTH115  # a Path would tidy it up
    changed = found.st_mtime_ns // 1_000_000_000
    return FileStatus.made_of(given, found.st_mode, found.st_size, changed, found.st_uid, found.st_gid, link)
