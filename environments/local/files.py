"""Files of this machine as those of a target: reading, writing and copying them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from environments.arguments import means_directory
from environments.atomic_file import checked_destination, naming, open_regular, read_pieces, replace_file
from environments.errors import TerminalError, target_error
from environments.progress import Reporter


@contextlib.contextmanager
def in_target(verb: str, path: str) -> Iterator[None]:
    """Turn what the system says of a file into what is said of a target's.

    Args:
        verb: What is done to it.
        path: Its path, as the caller gave it.

    Raises:
        TargetFileError: What is in the way there.
        TerminalError: It could not be done for another reason.
    """
    try:
        yield
    except TerminalError:
        raise
    except OSError as error:
        raise target_error(error.errno or 0, verb, path, "local", "" if error.errno else str(error)) from error


def path_of(place: str) -> Path:
    """Return the path of what is there. Raises NotADirectoryError if only a directory can have it, and it is none."""
    path = Path(place)
    if means_directory(place) and not stat.S_ISDIR(path.stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return path


class LocalFile:
    """A file of this machine.

    Args:
        given: Its path, as the caller gave it.
        place: The same, absolute.
    """

    def __init__(self, given: str, place: str) -> None:
        self._given = given
        self._place = place

    def _check_name(self) -> None:
        if means_directory(self._given):
            raise target_error(errno.EISDIR, "write", self._given, "local")

    def read(self, limit: int | None = None) -> bytes:
        """Return what is in it, see `TargetFiles.read_bytes`."""
        with in_target("read", self._given):
            path = path_of(self._place)
            with open_regular(path) as file, naming(path, "read"):
                return file.read() if limit is None else file.read(limit)

    def write(self, data: bytes, mode: int | None = None) -> None:
        """Replace it, see `TargetFiles.write_bytes`, with permission bits if any are given."""
        self._check_name()
        with in_target("write", self._given):
            replace_file(Path(self._place), lambda file: file.write(data), mode)

    def put(self, local: str | Path, progress: Reporter) -> None:
        """Replace it by a copy of a file, see `TargetFiles.put_file`."""
        source = Path(local)
        self._check_name()
        with open_regular(source) as file:
            status = os.fstat(file.fileno())
            with progress.counting(f"uploading {self._given}", status.st_size) as count:
                pieces = count.through(read_pieces(source, file))
                with in_target("write", self._given):
                    replace_file(Path(self._place), lambda copy: copy.writelines(pieces), stat.S_IMODE(status.st_mode))

    def get(self, local: str | Path, progress: Reporter) -> None:
        """Copy it, see `TargetFiles.get_file`."""
        target = checked_destination(local)
        with contextlib.ExitStack() as stack:
            with in_target("read", self._given):
                path = path_of(self._place)
                file = stack.enter_context(open_regular(path))
            status = os.fstat(file.fileno())
            with progress.counting(f"downloading {self._given}", status.st_size) as count:
                pieces = count.through(read_pieces(path, file))
                replace_file(target, lambda copy: copy.writelines(pieces), stat.S_IMODE(status.st_mode))
