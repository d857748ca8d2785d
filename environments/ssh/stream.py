"""Stream over one channel of an SSH connection."""

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
"""Bytes that the server may send unread. Reading paramiko's buffer is cheap only when it is read whole."""
WINDOW_STEP = WINDOW // 8
"""Bytes read before the server is sent a window adjustment."""
_PACKET = 32 * 1024
"""Bytes given to paramiko at once, sent as one packet."""
DRAIN = 0.5
"""Seconds of silence after the end of the process that count as the end of its output. The server sends the exit code
at once, but the end of the channel only after every process has closed its pipe: a daemon keeps it open for hours."""
CLOSE_LIMIT = 1.0
"""Seconds for `close` to send its message: a stalled link accepts none."""
_UNESCAPED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-./,:;=")
LINK_ERRORS = (OSError, EOFError, paramiko.SSHException)
"""Exceptions of paramiko for a lost connection."""

log = logger(__name__)


def remote_command(argv: Sequence[str]) -> str:
    """Return text that makes any login shell become `argv`.

    The server passes the text to the user's login shell. bash, dash, csh and fish agree on single quotes only for
    letters, digits and a few other characters: csh expands `!` and ends the quote at a line break, fish interprets
    `\\'`. All other bytes are written as octal escapes, and unpacked by /bin/sh.
    """
    script = f"exec {shlex.join(argv)}".encode("utf-8", "surrogateescape")
    escaped = "".join(chr(byte) if byte in _UNESCAPED else f"\\0{byte:03o}" for byte in script)
    return f"exec /bin/sh -c 'eval \"$(printf %b \"$0\")\"' '{escaped}'"


class LoopEvent(threading.Event):
    """Wakes the loop, in place of the event that paramiko's thread sets with each packet of a channel.

    Args:
        callback: Called on the loop, once for all packets that have arrived.
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        super().__init__()
        self._callback = callback
        self._is_scheduled = False
        self._soon = current().soon

    def set(self) -> None:
        """Schedule the callback, see `threading.Event`."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._run)

    def clear(self) -> None:
        """Do nothing, see `threading.Event`."""

    def _run(self) -> None:
        self._is_scheduled = False  # first: packets that arrive during the callback schedule another one
        self._callback()


async def extend_window(channel: paramiko.Channel, size: int) -> None:
    """Let the server send `size` more bytes, as `Channel.recv` does in a reading thread.

    Raises:
        OSError, EOFError, paramiko.SSHException: The connection is lost.
        TerminalError: No thread can be started.
    """
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_WINDOW_ADJUST)
    message.add_int(channel.remote_chanid)
    message.add_int(size)
    await in_worker(channel.get_transport()._send_user_message, message)  # type: ignore[attr-defined]


async def close_channel(channel: paramiko.Channel) -> None:
    """Close a channel; a lost connection is no error."""
    with contextlib.suppress(*LINK_ERRORS, TerminalError):
        await in_worker(channel.close)


class SSHStream(SendingStream):
    """A process on an SSH channel. The constructor blocks until the server has answered: call it in a worker thread.

    No thread waits for output. Sending may wait for the window or the socket, and runs in a worker thread.

    Args:
        channel: A new channel of the kind `session`.
        argv: The program and its arguments.
        terminal: The size of its terminal; None is pipes.

    Raises:
        EnvironmentStartError: The server refused to run the program.
    """

    def __init__(self, channel: paramiko.Channel, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        super().__init__()
        self._channel = channel
        self._has_terminal = terminal is not None
        self._is_paused = False
        self._unreported = 0
        self._silence_timer: asyncio.TimerHandle | None = None
        try:
            if terminal:
                channel.get_pty("xterm-256color", terminal.columns, terminal.rows)
            channel.exec_command(remote_command(argv))
        except LINK_ERRORS as error:
            channel.close()
            action = "give it a terminal" if terminal else "run it"
            raise EnvironmentStartError(
                f"backend 'ssh': the server refused to {action}: {error}; check that the user's login shell works "
                "there, and that no ForceCommand or PermitTTY forbids it"
            ) from error

    def _begin(self) -> None:
        self._loop = current().loop
        self._code: asyncio.Future[int | None] = self._loop.create_future()
        event = LoopEvent(self._look)
        self._channel.status_event = event
        self._channel.in_buffer.set_event(event)
        self._channel.in_stderr_buffer.set_event(event)
        self._loop.call_soon(self._look)

    # Reading.

    def _look(self) -> None:
        """Read the output that has arrived, and note the ends of the process and of its output."""
        channel = self._channel
        has_ended = channel.closed or (channel.exit_status >= 0 and channel.eof_received)  # read before the last bytes
        self._store_exit_code()
        if self.has_ended or self._is_paused:
            return
        has_read = self._read()
        if self._is_paused or self._is_closed:  # by the receiver
            return
        if has_ended:
            self._end()
        elif self._code.done() and (has_read or self._silence_timer is None):
            self._end_when_quiet()

    def _store_exit_code(self) -> None:
        status = self._channel.exit_status
        if not self._code.done() and (status >= 0 or self._channel.closed):
            self._code.set_result(status if status >= 0 else None)

    def _read(self) -> bool:
        """Deliver the output that has arrived. Returns True if there was any."""
        size = 0
        for channel, pipe in (
            (Channel.STDOUT, self._channel.in_buffer),
            (Channel.STDERR, self._channel.in_stderr_buffer),
        ):
            if not self._is_paused and not self._is_closed and (data := pipe.empty()):
                size += len(data)
                self.receiver.data_received(channel, data)
        self._unreported += size
        if self._unreported >= WINDOW_STEP and not self._channel.closed:
            spawn(self._extend_window())
        return size > 0

    async def _extend_window(self) -> None:
        """Let the server send as many bytes as were read."""
        size, self._unreported = self._unreported, 0
        try:
            await extend_window(self._channel, size)
        except LINK_ERRORS as error:
            log.debug("the window adjustment could not be sent: %s", error)
        except TerminalError:  # no thread can be started now
            self._unreported += size
            self._loop.call_later(DRAIN, self._look)

    def _end_when_quiet(self) -> None:
        if self._silence_timer:
            self._silence_timer.cancel()
        self._silence_timer = self._loop.call_later(DRAIN, self._end_after_silence)

    def _end_after_silence(self) -> None:
        self._silence_timer = None
        if not self._is_paused:
            self._end()

    def _end(self) -> None:
        if self._silence_timer:
            self._silence_timer.cancel()
        super()._end()

    def pause(self) -> None:
        # The server stops sending when the window is full: back-pressure.
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._look)

    # Sending.

    def write(self, data: bytes) -> None:
        if self._code.done():  # the channel may stay open for children of the process
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
        if not self._channel.closed:  # a closed channel may have unread output
            self._end()

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            sent = self._channel.send(bytes(rest[:_PACKET]))
            if not sent:  # our half of the channel is closed
                raise BrokenPipeError(errno.EPIPE, "the channel is closed")
            rest = rest[sent:]

    def close_write(self) -> None:
        # On a terminal, control-D is the end of file. Else our half of the channel is closed.
        if self._has_terminal:
            self.write(b"\x04")
        else:
            super().close_write()

    async def resize(self, terminal: Terminal) -> None:
        if self._has_terminal and not self._is_closed:
            await self.drain()
            with contextlib.suppress(*LINK_ERRORS):
                await in_worker(self._channel.resize_pty, terminal.columns, terminal.rows)

    # The end.

    async def exit_code(self, timeout: float) -> int | None:
        # A lost link gives None at once.
        return self._code.result() if await done_within(self._code, timeout) else None

    async def close(self) -> None:
        # The server closes the process's pipes, and hangs up its terminal.
        if not self._is_closed:
            self._is_closed = True
            self._end()
            await done_within(spawn(close_channel(self._channel)), CLOSE_LIMIT)


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Turn paramiko's connection errors into OSError."""
    try:
        yield
    except (EOFError, paramiko.SSHException) as error:
        raise OSError(str(error)) from error
