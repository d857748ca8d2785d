"""A real pseudo-terminal with a program on it, for tests that type and read like a user."""

from __future__ import annotations

import os
import re
import select
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_TAKES_THE_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'
"""A session leader's first opened terminal becomes its controlling terminal."""
PATIENCE = 90.0
"""Time-out of a wait in seconds, for a loaded machine."""


class TerminalUser:
    """Starts a program on a terminal, types, and reads the screen.

    Args:
        words: The program and its arguments.
        variables: Its environment variables.
        folder: Its working directory.
        rows: Lines of the window.
        columns: Characters in each.
    """

    def __init__(
        self, words: Sequence[str], variables: Mapping[str, str], folder: Path, rows: int = 33, columns: int = 111
    ) -> None:
        self._screen, self._theirs = os.openpty()
        self._open: list[int] = [self._screen, self._theirs]
        self.resize(rows, columns)
        self.initial_settings = self.settings()
        """Terminal settings before the program's start."""
        self._seen = b""
        self.all = b""
        """The whole output."""
        self.program = subprocess.Popen(
            ["/bin/sh", "-c", _TAKES_THE_TERMINAL, os.ttyname(self._theirs), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=variables,
            cwd=folder,
            start_new_session=True,
        )

    def resize(self, rows: int, columns: int) -> None:
        """Change the window's size."""
        termios.tcsetwinsize(self._screen, (rows, columns))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._screen, text.encode())

    def expect(self, pattern: str) -> str:
        """Wait until a regular expression matches the output since the last match, and return the match."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern.encode(), self._seen)):
            assert self._look(deadline), f"{pattern!r} is not shown: {self._seen!r}"
        self._seen = self._seen[found.end() :]
        return found[0].decode()

    def _look(self, deadline: float) -> bool:
        """Read the next output. Return False if the program has ended, or at the deadline."""
        while time.monotonic() < deadline:
            ended = self.program.poll() is not None
            if select.select([self._screen], [], [], 0 if ended else 0.05)[0]:
                data = os.read(self._screen, 65536)
                self._seen += data
                self.all += data
                return True
            if ended:
                break
        return False

    def wait_for_exit(self) -> int:
        """Wait for the program's end and return its exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._look(deadline):
            pass
        return self.program.wait(PATIENCE)

    @property
    def is_full(self) -> bool:
        """True if the terminal's output buffer is full."""
        return not select.select([], [self._theirs], [], 0)[1]

    @property
    def has_initial_settings(self) -> bool:
        """True if the terminal's settings are the initial ones."""
        return self.settings() == self.initial_settings

    def settings(self) -> list[Any]:
        """Return the terminal's settings, see tcgetattr(3)."""
        return termios.tcgetattr(self._theirs)

    def set(self, settings: list[Any]) -> None:
        """Change the terminal's settings."""
        termios.tcsetattr(self._theirs, termios.TCSANOW, settings)

    def leave(self) -> None:
        """Close the terminal's window."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []

    def close(self) -> None:
        """Kill the program, and close the window."""
        with self.program:
            self.program.kill()
        self.leave()
