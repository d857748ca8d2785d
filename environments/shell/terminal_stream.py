"""The stream of a shell on a terminal: its commands read what is typed there, and its script comes beside it.

What was typed for one command and not read by it must never be run by the shell. So the shell reads its script from a
pipe of the target that has no name any more once it is open at both ends; a second stream leads into it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from environments.shell.dialect.boot import feeding_argv
from environments.shell.opening import await_raw_terminal
from environments.shell.shell import ANSWER_TIMEOUT
from environments.shell.stream import Chunk, Stream, StreamOpener, Terminal


class TerminalStream:
    """Both streams as one. See `Stream`; what is written is script, and what is typed goes to the command that runs.

    Args:
        terminal: The process on the terminal.
        script: The process that brings it the script.
    """

    def __init__(self, terminal: Stream, script: Stream) -> None:
        self._terminal = terminal
        self._script = script

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for what the terminal shows, see `Stream`."""
        return self._terminal.read(timeout)

    def write(self, data: bytes) -> None:
        """Send script to the shell, see `Stream`."""
        self._script.write(data)

    def type(self, data: bytes) -> None:
        """Type on the terminal. Raises as `write` does."""
        self._terminal.write(data)

    def close_write(self) -> None:
        """Let the shell see the end of its script, see `Stream`."""
        self._script.close_write()

    def resize(self, terminal: Terminal) -> None:
        """Change the size of the terminal, see `Stream`."""
        self._terminal.resize(terminal)

    def exit_code(self, timeout: float) -> int | None:
        """Return how the shell ended, see `Stream`."""
        return self._terminal.exit_code(timeout)

    def close(self) -> None:
        """Give up both, see `Stream`."""
        try:
            self._terminal.close()
        finally:
            self._script.close()


def open_terminal_stream(
    open_stream: StreamOpener, argv: Sequence[str], terminal: Terminal, marker: str, script: str
) -> TerminalStream:
    """Start a process on a terminal, and what brings it its script.

    Args:
        open_stream: Starts a process in the target.
        argv: The first process, see `boot_argv`.
        terminal: The size of its terminal.
        marker: What the marker variable of both begins with.
        script: The pipe from which the first reads its script, which it makes.

    Raises:
        EnvironmentStartError: One of them could not be started.
        UnsupportedError: The backend has no terminals.
    """
    first = open_stream(argv, terminal)
    try:
        await_raw_terminal(first, time.monotonic() + ANSWER_TIMEOUT)
        return TerminalStream(first, open_stream(feeding_argv(marker, script)))
    except BaseException:
        first.close()
        raise
