"""This machine as a poor target: no bash, and no files but through the shell."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from environments.shell.child_stream import ChildStream
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.stream import Stream, Terminal


class PlainLocal(PersistentShellEnvironment):
    """Takes everything from the base class, over a POSIX shell that is not bash."""

    same_machine = True

    def start_target(self) -> None:
        # What stops it while it is being filled, on a loaded machine, may fail; what is filled late is stopped again.
        self._path = tempfile.TemporaryDirectory(prefix="plain-path-", ignore_cleanup_errors=True)
        Path(self._path.name).chmod(0o755)  # as another user finds programs there, too
        for directory in ("/usr/bin", "/bin"):
            for program in Path(directory).iterdir():
                link = Path(self._path.name, program.name)
                if program.name not in ("bash", "rbash") and not link.is_symlink():
                    link.symlink_to(program)

    def open_stream(self, argv: Sequence[str], terminal: Terminal | None = None) -> Stream:
        return ChildStream(argv, terminal=terminal, env={**os.environ, "PATH": self._path.name})

    def stop_target(self) -> None:
        self._path.cleanup()
