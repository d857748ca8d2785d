"""A stream over one channel of an SSH connection."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence

import paramiko
from paramiko.common import cMSG_CHANNEL_WINDOW_ADJUST

from environments.errors import EnvironmentStartError, TerminalError
from environments.log import logger
from environments.loop import current, done_within, in_worker, spawn
from environments.output import Channel
from environments.shell.sending_stream import SendingStream
from environments.shell.stream import Terminal

WINDOW = 2 * 1024 * 1024
"""Bytes that the server may send before any are read. Reading paramiko's buffer is only cheap when it is read whole."""
ROOM = WINDOW // 8
"""Bytes after which the server is told that they were read."""
_PACKET = 32 * 1024
"""Bytes given to paramiko at once, which it sends as one packet."""
DRAIN = 0.5
"""Seconds of silence after the process's end that count as the end of its output: the server sends how it ended at
once, but the end of the channel only when no process holds its pipe open any more, as a daemon does for hours."""
CLOSE_LIMIT = 1.0
"""Seconds that `close` waits until the server has been told: a link that stalls takes nothing more."""
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./,:;=")
LINK_ERRORS = (OSError, EOFError, paramiko.SSHException)
"""The exceptions of paramiko for a connection that is gone."""

log = logger(__name__)


def remote_command(argv: Sequence[str]) -> str:
    """Return text that makes any login shell become `argv`.

    The server hands the text to the user's login shell, and bash, dash, csh and fish agree on single quotes only as
    far as letters, digits and a little more go: csh takes `!` and ends the quote at a line break, fish takes
    `\\'`. So everything else is written as an octal escape, and unpacked by /bin/sh.
    """
    script = f"exec {shlex.join(argv)}".encode("utf-8", "surrogateescape")
    packed = "".join(chr(byte) if byte in _PLAIN else f"\\0{byte:03o}" for byte in script)
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$0\")\"' '{packed}'"


class Bell(threading.Event):
    """Wakes the loop, in place of an event that paramiko's thread sets with each packet of a channel.

    Args:
        look: Called on the loop, once for all that has arrived by then.
    """

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look
        self._rings = False
        self._soon = current().soon

    def set(self) -> None:
        """Have the loop called, see `threading.Event`."""
        if not self._rings:
            self._rings = True
            self._soon(self._answer)

    def clear(self) -> None:
        """Do nothing, see `threading.Event`."""

    def _answer(self) -> None:
        self._rings = False  # first: what arrives while the loop looks rings again
        self._look()


async def make_room(channel: paramiko.Channel, size: int) -> None:
    """Let the server send so many bytes more, as `Channel.recv` does in the thread that reads.

    Raises:
        OSError, EOFError, paramiko.SSHException: The connection is gone.
        TerminalError: No thread can be started.
    """
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
    message.add_int(channel.remote_chanid)
    message.add_int(size)
    await in_worker(channel.get_transport()._send_user_message, message)  # type: ignore[attr-defined]


async def close_channel(channel: paramiko.Channel) -> None:
    """Close a channel, if its connection is still there."""
    with contextlib.suppress(*LINK_ERRORS, TerminalError):
        await in_worker(channel.close)


class SSHStream(SendingStream):
    """A process on the other side of a channel. It is made in a worker thread, as it waits for the server's answers.

    No thread waits for what arrives. Whatever is sent may wait for the window or the socket, and is sent by a worker.

    Args:
        channel: A new channel of the kind `session`.
        argv: The program to run and its arguments.
        terminal: The size of a terminal to give it; None is pipes.

    Raises:
        EnvironmentStartError: The server refused to run it.
    """

    def __init__(self, channel: paramiko.Channel, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        super().__init__()
        self._channel = channel
        self._has_terminal = terminal is not None
        self._is_paused = False
        self._room = 0
        self._quiet: asyncio.TimerHandle | None = None
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

    def _begin(self) -> None:
        self._loop = current().loop
        self._code: asyncio.Future[int | None] = self._loop.create_future()
        bell = Bell(self._look)
        self._channel.status_event = bell
        self._channel.in_buffer.set_event(bell)
        self._channel.in_stderr_buffer.set_event(bell)
        self._loop.call_soon(self._look)

    # Reading.

    def _look(self) -> None:
        """Take what has arrived, and note the ends of the process and of its output."""
        channel = self._channel
        has_ended = channel.closed or (channel.exit_status >= 0 and channel.eof_received)  # before the last bytes
        self._note_exit()
        if self.has_ended or self._is_paused:
            return
        has_read = self._read()
        if self._is_paused or self._is_closed:  # by its receiver
            return
        if has_ended:
            self._end()
        elif self._code.done() and (has_read or self._quiet is None):
            self._end_when_quiet()

    def _note_exit(self) -> None:
        status = self._channel.exit_status
        if not self._code.done() and (status >= 0 or self._channel.closed):
            self._code.set_result(status if status >= 0 else None)

    def _read(self) -> bool:
        """Hand on what has arrived, and return whether that is anything."""
        size = 0
        for channel, pipe in (
            (Channel.STDOUT, self._channel.in_buffer),
            (Channel.STDERR, self._channel.in_stderr_buffer),
        ):
            if not self._is_paused and not self._is_closed and (data := pipe.empty()):
                size += len(data)
                self.receiver.data_received(channel, data)
        self._room += size
        if self._room >= ROOM and not self._channel.closed:
            spawn(self._make_room())
        return size > 0

    async def _make_room(self) -> None:
        """Let the server send as much more as was read."""
        size, self._room = self._room, 0
        try:
            await make_room(self._channel, size)
        except LINK_ERRORS as error:
            log.debug("the server could not be told what was read: %s", error)
        except TerminalError:  # no thread is to be had just now
            self._room += size
            self._loop.call_later(DRAIN, self._look)

    def _end_when_quiet(self) -> None:
        if self._quiet:
            self._quiet.cancel()
        self._quiet = self._loop.call_later(DRAIN, self._was_quiet)

    def _was_quiet(self) -> None:
        self._quiet = None
        if not self._is_paused:
            self._end()

    def _end(self) -> None:
        if self._quiet:
            self._quiet.cancel()
        super()._end()

    def pause(self) -> None:
        """Stop reading, see `Stream`. The server stops sending when the window is full."""
        self._is_paused = True

    def resume(self) -> None:
        """Read on, see `Stream`."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._look)

    # Sending.

    def write(self, data: bytes) -> None:
        """Send bytes, see `Stream`."""
        if self._code.done():  # the channel may stay open for what the process left behind
            raise BrokenPipeError(errno.EPIPE, "the process has ended")
        super().write(data)

    async def _send(self, data: bytes) -> None:
        with _as_os_error():
            await in_worker(self._write, data)

    async def _send_end(self) -> None:
        with _as_os_error():
            await in_worker(self._channel.shutdown_write)

    def _break(self) -> None:
        super()._break()
        if not self._channel.closed:  # else what has come before that is still to be read
            self._end()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            sent = self._channel.send(bytes(rest[:_PACKET]))
            if not sent:  # of a channel that is closed for what we send
                raise BrokenPipeError(errno.EPIPE, "the channel is closed")
            rest = rest[sent:]

    def close_write(self) -> None:
        """Let the process see end of file: end the channel's input, or type control-D on a terminal."""
        if self._has_terminal:
            self.write(b"\x04")
        else:
            super().close_write()

    async def resize(self, terminal: Terminal) -> None:
        """Change the terminal's size, see `Stream`, behind what was written."""
        if self._has_terminal and not self._is_closed:
            await self.drain()
            with contextlib.suppress(*LINK_ERRORS):
                await in_worker(self._channel.resize_pty, terminal.columns, terminal.rows)

    # The end.

    async def exit_code(self, timeout: float) -> int | None:
        """Return how the process ended, see `Stream`. None at once when the link is gone."""
        return self._code.result() if await done_within(self._code, timeout) else None

    async def close(self) -> None:
        """Close the channel. The server closes the process's pipes, and hangs its terminal up."""
        if not self._is_closed:
            self._is_closed = True
            self._end()
            await done_within(spawn(close_channel(self._channel)), CLOSE_LIMIT)


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Turn paramiko's errors about a connection into those of the system."""
    try:
        yield
    except (EOFError, paramiko.SSHException) as error:
        raise OSError(str(error)) from error
