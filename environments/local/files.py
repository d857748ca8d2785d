"""Reading and copying files of this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from environments.atomic_file import naming, replace_file

PIECE = 1024 * 1024
"""Bytes to copy at a time."""


def read_file(path: Path) -> bytes:
    """Return a file, whole.

    Raises:
        FileNotFoundError: No such file.
        TerminalError: It could not be read.
    """
    with naming(path, "read"):
        return path.read_bytes()


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its mode, replacing `target` in one step.

    Raises:
        FileNotFoundError: No such source.
        TerminalError: It could not be read or written.
    """
    with naming(source, "read"), source.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        pieces = iter(lambda: file.read(PIECE), b"")
        replace_file(target, lambda copy: copy.writelines(pieces), mode)
