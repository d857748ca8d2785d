"""A local backend without bash and without file methods of its own."""

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
    # On a loaded machine, cleanup may meet the filling and fail. It runs again once the directory is full.
    made = tempfile.TemporaryDirectory(prefix="plain-path-", ignore_cleanup_errors=True)
    Path(made.name).chmod(0o755)  # for programs of another user
    found = {program.name: program for folder in ("/bin", "/usr/bin") for program in Path(folder).iterdir()}
    for name, program in found.items():
        if name not in ("bash", "rbash"):
            Path(made.name, name).symlink_to(program)
    return made


@cache
def _shared_programs() -> tempfile.TemporaryDirectory[str]:
    """Return the directory shared by all environments of this process."""
    return _directory_of_programs()


class PlainLocal(PersistentShellEnvironment):
    """The base class's own methods over a POSIX shell other than bash."""

    same_machine = True
    has_own_programs = False
    """True if a test changes the directory of programs."""
    first_programs: str | Path = ""
    """A directory that precedes the programs in PATH."""

    def start_target(self) -> None:
        self._path = _directory_of_programs() if self.has_own_programs else _shared_programs()

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return ChildStream(
            argv, terminal=terminal, env={**os.environ, "PATH": f"{self.first_programs}:{self._path.name}".lstrip(":")}
        )

    def stop_target(self) -> None:
        if self.has_own_programs:
            self._path.cleanup()


class RemotePlainLocal(PlainLocal):
    """A `PlainLocal` treated as another machine: all file access goes through commands."""

    same_machine = False
