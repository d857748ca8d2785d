"""Our private directory in the target."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from environments.errors import TerminalError
from environments.removal import removing
from environments.shell.dialect.commands import in_temporary_directory, making_scratch
from environments.shell.lifecycle import Lifecycle

if TYPE_CHECKING:
    from environments.shell.process_tree import RunInTarget


def made_scratch(name: str, run: RunInTarget, backend: str) -> str:
    """Make a private directory of a name in the target, and return its path.

    Raises:
        TerminalError: It could not be made.
    """
    result = run(making_scratch(name))
    if result.exit_code != 0:
        raise TerminalError(
            f"no temporary directory can be made on backend {backend!r}, which standard input and long commands need: "
            f"{result.output.strip()}; set TMPDIR there to one that is writable"
        )
    return result.output


class Scratch:
    """A directory that is made on first use, and again in a new target.

    Args:
        owner: The environment's name, which is in that of the directory.
        life: Says which target there is.
        make: Makes a directory of a name, and returns its path.
        run: Runs a command of our own in the target.
        write: Writes a file there.
    """

    def __init__(
        self,
        owner: str,
        life: Lifecycle,
        make: Callable[[str], str],
        run: RunInTarget,
        write: Callable[[str, bytes], object],
    ) -> None:
        self._owner = owner
        self._life = life
        self._make = make
        self._run = run
        self._write = write
        self._lock = threading.Lock()
        self._path = ""
        self._generation = 0

    @property
    def made(self) -> str:
        """The path, if the directory was made in the target there is now; else empty."""
        return self._path if self._generation == self._life.generation else ""

    def directory(self) -> str:
        """Return the path.

        Raises:
            TerminalError: It could not be made.
        """
        generation = self._life.ensure_started()
        with self._lock:
            if not self._path or self._generation != generation:
                self._path = self._make(f"hermes-{self._owner}-{os.urandom(4).hex()}")
                self._generation = generation
            return self._path

    def put(self, data: bytes) -> str:
        """Write a file that only the target's user can read, and return its path."""
        path = f"{self.directory()}/{os.urandom(8).hex()}"
        self._write(path, data)
        return path

    def remove(self, path: str = "") -> None:
        """Remove a file; or all of it if it was made, with what shells of ours that were killed have left beside it."""
        if path:
            self._run(removing(path))
        elif made := self._path:
            self._path = ""
            # An earlier one may still be there, as a target that was lost may be the same machine.
            self._run(f"{removing(made)}; rm -rf -- {in_temporary_directory(f'hermes-{self._owner}-')}*")
