"""This machine as a poor target: no bash, and no files but through the shell."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal


def _directory_of_programs() -> tempfile.TemporaryDirectory[str]:
    """Make a directory of links to all programs but bash. It takes half a second on some kernels."""
    # What stops it while it is being filled, on a loaded machine, may fail; what is filled late is stopped again.
    made = tempfile.TemporaryDirectory(prefix="plain-path-", ignore_cleanup_errors=True)
    Path(made.name).chmod(0o755)  # as another user finds programs there, too
    found = {program.name: program for folder in ("/bin", "/usr/bin") for program in Path(folder).iterdir()}
    for name, program in found.items():
        if name not in ("bash", "rbash"):
            Path(made.name, name).symlink_to(program)
    return made


@cache
def _shared_programs() -> tempfile.TemporaryDirectory[str]:
    """Return the directory that all environments of this process share."""
    return _directory_of_programs()


class PlainLocal(PersistentShellEnvironment):
    """Takes everything from the base class, over a POSIX shell that is not bash."""

    same_machine = True
    has_own_programs = False
    """True where a test changes the directory of programs."""
    first_programs: str | Path = ""
    """A directory of programs that come before them."""

    def start_target(self) -> None:
        self._path = _directory_of_programs() if self.has_own_programs else _shared_programs()

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return ChildStream(
            argv, terminal=terminal, env={**os.environ, "PATH": f"{self.first_programs}:{self._path.name}".lstrip(":")}
        )

    def stop_target(self) -> None:
        if self.has_own_programs:
            self._path.cleanup()
