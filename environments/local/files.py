"""Reading and copying files of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from environments.atomic_file import naming, open_regular, read_pieces, replace_file
from environments.progress import Reporter


def read_file(path: Path) -> bytes:
    """Return a regular file, whole.

    Raises:
        FileNotFoundError: No such file.
        TerminalError: It could not be read.
    """
    with open_regular(path) as file, naming(path, "read"):
        return file.read()


def copy_file(source: Path, target: Path, what: str, progress: Reporter) -> None:
    """Copy a regular file with its permissions, replacing `target` in one step.

    Args:
        source: The file.
        target: Where it is to be.
        what: What that is called.
        progress: Is told how far it is.

    Raises:
        FileNotFoundError: No such source.
        TerminalError: It could not be read or written.
    """
    with open_regular(source) as file:
        status = os.fstat(file.fileno())
        with progress.counting(what, status.st_size) as count:
            pieces = count.through(read_pieces(source, file))
            replace_file(target, lambda copy: copy.writelines(pieces), stat.S_IMODE(status.st_mode))
