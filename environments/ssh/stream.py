"""A stream over one channel of an SSH connection."""

from __future__ import annotations

import contextlib
import errno
import math
import shlex
import threading
import time
from collections.abc import Sequence

import paramiko

from environments.errors import EnvironmentStartError
from environments.shell.stream import Chunk, Terminal
from environments.sink import Channel

WINDOW = 2 * 1024 * 1024
"""Bytes the server may send before we have read any. paramiko's buffer is only cheap to read when read whole."""
_PIECE = 256 * 1024
"""Bytes given to paramiko at once: of what it is given it copies the rest with each packet of 32 KB."""
DRAIN = 0.5
"""Seconds of silence after the process's end that count as the end of its output: the server sends how it ended at
once, but the end of the channel only when nobody holds its pipe open any more, which a daemon does for hours."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./,:;=")
LINK_ERRORS = (OSError, EOFError, paramiko.SSHException)
"""What paramiko raises when the connection is gone."""


def remote_command(argv: Sequence[str]) -> str:
    """Return text that makes any login shell become `argv`.

    The server hands the text to the user's login shell, and bash, dash, csh and fish agree on single quotes only as
    far as letters, digits and a little more go: csh takes `!` and ends the quote at a line break, fish takes
    `\\'`. So everything else is written as an octal escape, and unpacked by /bin/sh.
    """
    script = f"exec {shlex.join(argv)}".encode("utf-8", "surrogateescape")
    packed = "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in script)
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$0\")\"' '{packed}'"


class _ProcessEnd(threading.Event):
    """Is set when the process has ended, notes when that was, and sets another event with it."""

    def __init__(self, news: threading.Event) -> None:
        super().__init__()
        self._news = news
        self.moment = math.inf

    def set(self) -> None:
        self.moment = min(self.moment, time.monotonic())
        super().set()
        self._news.set()


class SSHStream:
    """A process on the other side of a channel.

    Args:
        channel: A new channel of the kind `session`.
        argv: The program to run and its arguments.
        terminal: The size of a terminal to give it; None is pipes.

    Raises:
        EnvironmentStartError: The server refused to run it.
    """

    def __init__(self, channel: paramiko.Channel, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        self._channel = channel
        self._terminal = terminal is not None
        self._read_lock = threading.Lock()
        self._last_read = 0.0
        # One event for both outputs and the exit status: paramiko sets it when any of them has something new.
        self._news = threading.Event()
        channel.status_event = self._end = _ProcessEnd(self._news)
        channel.in_buffer.set_event(self._news)
        channel.in_stderr_buffer.set_event(self._news)
        try:
            if terminal:
                channel.get_pty("xterm-256color", terminal.columns, terminal.rows)
            channel.exec_command(remote_command(argv))
        except LINK_ERRORS as error:
            channel.close()
            what = "give it a terminal" if terminal else "run it"
            raise EnvironmentStartError(
                f"the SSH server refused to {what}: {error}; check that the user's login shell works there, and that "
                "no ForceCommand or PermitTTY stands against it"
            ) from error

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes, see `Stream.read`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._read_lock:
            while True:
                self._news.clear()
                over = self._channel.closed or (self._end.is_set() and self._channel.eof_received)
                if chunk := self._received():
                    return chunk
                now = time.monotonic()
                drained = max(self._end.moment, self._last_read) + DRAIN
                if over or now >= drained:
                    return Chunk(Channel.STDOUT, b"")
                if now >= deadline:
                    return None
                until = min(deadline, drained)
                self._news.wait(None if until == math.inf else until - now)

    def _received(self) -> Chunk | None:
        try:
            if self._channel.recv_ready():
                chunk = Chunk(Channel.STDOUT, self._channel.recv(WINDOW))
            elif self._channel.recv_stderr_ready():
                chunk = Chunk(Channel.STDERR, self._channel.recv_stderr(WINDOW))
            else:
                return None
        except LINK_ERRORS:  # it also tells the server that there is room again
            return Chunk(Channel.STDOUT, b"")
        self._last_read = time.monotonic()
        return chunk

    def write(self, data: bytes) -> None:
        """Send all of `data`, see `Stream.write`."""
        if self._end.is_set():  # the channel may stay open for what the process left behind
            raise BrokenPipeError(errno.EPIPE, "the process has ended")
        try:
            for start in range(0, len(data), _PIECE):
                self._channel.sendall(data[start : start + _PIECE])
        except LINK_ERRORS as error:
            raise BrokenPipeError(errno.EPIPE, f"the channel is closed: {error}") from error

    def close_write(self) -> None:
        """Let the process see end of file: end the channel's input, or type control-D on a terminal."""
        if self._terminal:
            self.write(b"\x04")
            return
        with contextlib.suppress(*LINK_ERRORS):
            self._channel.shutdown_write()

    def resize(self, terminal: Terminal) -> None:
        """Change the terminal's size; with pipes there is none."""
        if self._terminal:
            with contextlib.suppress(*LINK_ERRORS):
                self._channel.resize_pty(terminal.columns, terminal.rows)

    def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream.exit_code`. None at once when the link is gone."""
        if not self._end.wait(timeout):
            return None
        code = self._channel.recv_exit_status()
        return code if code >= 0 else None

    def close(self) -> None:
        """Close the channel. The server closes the process's pipes, and hangs its terminal up."""
        with contextlib.suppress(*LINK_ERRORS):
            self._channel.close()
