"""What is typed to the commands of a session on a terminal."""

from __future__ import annotations

import contextlib
import threading
from functools import partial

from environments.errors import TerminalError
from environments.shell.shell import Shell
from environments.shell.terminal_stream import TerminalStream

MOST_AHEAD = 64 * 1024
"""Bytes that may be typed before a command takes them."""


class Keyboard:
    """Types to the command that runs, and keeps what is typed before one has begun for the next.

    Until then the terminal belongs to the shell: a control-C would not be one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stream: TerminalStream | None = None
        self._ahead = bytearray()
        self._is_typing = False
        self._thread: threading.Thread | None = None

    def type(self, data: bytes) -> None:
        """Type; it may take until the command reads what was typed before.

        Raises:
            TerminalError: Too much has been typed already that no command has taken.
        """
        with self._lock:
            if len(self._ahead) + len(data) > MOST_AHEAD:
                raise TerminalError(
                    f"{MOST_AHEAD // 1024} KiB were typed that no command has taken; wait until one does, or give it "
                    "such an input by stdin"
                )
            self._ahead += data
            if self._stream is None or self._is_typing:
                return
            self._is_typing = True
        self._type_all()

    def take_over(self, shell: Shell) -> None:
        """Have what is typed go to the next command of a shell, if that is on a terminal."""
        if isinstance(shell.stream, TerminalStream):
            shell.on_begin = partial(self.command_began, shell.stream)

    def command_began(self, stream: TerminalStream) -> None:
        """Have everything typed on a terminal. Called by whoever reads from it, who must not wait."""
        with self._lock:
            self._stream = stream
            if not self._ahead or self._is_typing:
                return
            self._is_typing = True
            self._thread = threading.Thread(target=self._type_all, name="hermes-keyboard", daemon=True)
            self._thread.start()

    def command_ended(self) -> None:
        """Keep what is typed from here on."""
        with self._lock:
            self._stream = None

    def _type_all(self) -> None:
        while True:
            with self._lock:
                stream, data = self._stream, bytes(self._ahead)
                if stream is None or not data:
                    self._is_typing = False
                    return
                self._ahead.clear()
            with contextlib.suppress(OSError):  # the shell has ended, and its terminal with it
                stream.type(data)

    def close(self) -> None:
        """Wait until nothing is being typed any more, once the terminal is closed."""
        if self._thread:
            self._thread.join()
