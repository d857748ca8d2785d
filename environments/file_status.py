"""What is known of a file of a target."""

from __future__ import annotations

import posixpath
import stat
from dataclasses import dataclass
from typing import Literal

FileKind = Literal["file", "directory", "symlink", "other"]
_KINDS: dict[int, FileKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What `stat` and `list_dir` say of a file, a directory or a link."""

    name: str
    """The last part of the path. Bytes that are not UTF-8 are surrogates, as in `os.fsdecode`."""
    path: str
    """The path that was asked for; of an entry of a directory, that of the directory, a slash, and the name."""
    kind: FileKind
    """`other` is a pipe, a socket or a device."""
    size: int
    """Bytes."""
    mode: int
    """Permission bits, with set-user-ID, set-group-ID and sticky: 0 to 0o7777."""
    modified: int
    """When the contents were changed last: whole seconds since 1970, the finest that every target tells."""
    uid: int
    """The number of the user that it belongs to."""
    gid: int
    """The number of its group."""
    link_target: str | None = None
    """What a link points to, as it is written there; None for all else."""

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return self.kind == "file"

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def is_symlink(self) -> bool:
        """Whether it is a symbolic link, which was not followed."""
        return self.kind == "symlink"

    @classmethod
    def made_of(
        cls, path: str, mode: int, size: int, modified: int, uid: int, gid: int, link_target: str | None = None
    ) -> FileStatus:
        """Return what the system's own numbers say of a path.

        Args:
            path: The path, as it is to be shown.
            mode: The kind and the permission bits, as in `os.stat_result.st_mode`.
            size: Bytes.
            modified: Seconds since 1970.
            uid: The user's number.
            gid: The group's number.
            link_target: What a link points to.
        """
        kind = _KINDS.get(stat.S_IFMT(mode), "other")
        name = posixpath.basename(path.rstrip("/"))
        return cls(name, path, kind, size, stat.S_IMODE(mode), modified, uid, gid, link_target)
