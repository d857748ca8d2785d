"""A user at a terminal, which is a real pseudo-terminal, and a program that has it as its own."""

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
"""A session leader without a terminal gets the first one that it opens."""
PATIENCE = 90.0
"""Seconds to wait for what is to be seen, on a loaded machine."""


class TerminalUser:
    """Types and looks.

    Args:
        words: The program that has the terminal.
        variables: Its environment.
        folder: Where it runs.
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
        """Those of the terminal before the program."""
        self._seen = b""
        self.all = b""
        """All that was ever shown."""
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
        """Make the window another size."""
        termios.tcsetwinsize(self._screen, (rows, columns))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._screen, text.encode())

    def expect(self, pattern: str) -> str:
        """Wait until a regular expression matches what was shown since the last time, and return the match."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern.encode(), self._seen)):
            assert self._look(deadline), f"{pattern!r} is not shown: {self._seen!r}"
        self._seen = self._seen[found.end() :]
        return found[0].decode()

    def _look(self, deadline: float) -> bool:
        """Take in what is shown next. False if the program has ended, or it takes too long."""
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
        """Whether there is no room left for what is to be shown."""
        return not select.select([], [self._theirs], [], 0)[1]

    @property
    def has_initial_settings(self) -> bool:
        """Whether the terminal's settings are those it had before the program."""
        return self.settings() == self.initial_settings

    def settings(self) -> list[Any]:
        """Return the terminal's settings, see tcgetattr(3)."""
        return termios.tcgetattr(self._theirs)

    def set(self, settings: list[Any]) -> None:
        """Give the terminal other settings."""
        termios.tcsetattr(self._theirs, termios.TCSANOW, settings)

    def leave(self) -> None:
        """Shut the window."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []

    def close(self) -> None:
        """Be done, also with a program that is not."""
        with self.program:
            self.program.kill()
        self.leave()
