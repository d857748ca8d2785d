"""Reading and copying files of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from environments.atomic_file import naming, open_regular, read_pieces, replace_file


def read_file(path: Path) -> bytes:
    """Return a regular file, whole.

    Raises:
        FileNotFoundError: No such file.
        TerminalError: It could not be read.
    """
    with open_regular(path) as file, naming(path, "read"):
        return file.read()


def copy_file(source: Path, target: Path) -> None:
    """Copy a regular file with its permissions, replacing `target` in one step.

    Raises:
        FileNotFoundError: No such source.
        TerminalError: It could not be read or written.
    """
    with open_regular(source) as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        replace_file(target, lambda copy: copy.writelines(read_pieces(source, file)), mode)
