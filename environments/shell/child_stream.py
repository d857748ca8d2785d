"""A stream to a local child process, through pipes or a pseudo-terminal."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import IO, Protocol

from environments.errors import EnvironmentStartError
from environments.loop import current, done_within, shielded
from environments.output import Channel
from environments.shell.outgoing import Outgoing
from environments.shell.stream import Stream, Terminal

PIPE_SIZE, LARGE_PIPE_SIZE = 64 * 1024, 256 * 1024
"""Pipe capacity in bytes, usually and during a large output: a small pipe would cost many more context switches. All
pipes of a user may hold 64 MB, beyond which new pipes are tiny, so only busy pipes are enlarged."""
LEAVE_LIMIT = 2.0
"""Seconds for a child that may not be killed to end by itself."""
REST = 0.002
"""Seconds after a command with its state report left unread: by then the report is usually complete."""
LONG_REST = 0.2
"""Seconds after a report without a watch on standard error: the next command usually comes first."""
MOST_READS = 16
"""Reads per turn of the loop, for the rest of an ended child's output."""
_OPEN_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'
"""The first terminal opened by a session leader becomes its controlling terminal."""


class Child(Protocol):
    """The child process of a stream, with the interface of `subprocess.Popen`."""

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""

    def kill(self) -> None:
        """Send KILL."""


class ChildStream(Stream):
    """A child process in a process session of its own. May be made in any thread.

    Args:
        argv: The program and its arguments.
        terminal: The size of a pseudo-terminal; None is pipes.
        env: The environment; None inherits this process's.
        cwd: The working directory.

    Raises:
        EnvironmentStartError: The program cannot be started.
    """

    _child: Child

    def __init__(
        self,
        argv: Sequence[str],
        *,
        terminal: Terminal | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self._channels: dict[int, Channel] = {}
        self._input = -1
        self._end_of_child = -1
        self._is_closed = self._is_paused = False
        self._size = PIPE_SIZE
        self._is_resting = False
        self._has_terminal = terminal is not None
        self._files: tuple[IO[bytes], ...] = ()
        try:
            if terminal is None:
                self._open_pipes(argv, env, cwd)
            else:
                self._open_terminal(argv, env, cwd, terminal)
            for descriptor in {self._input, *self._channels}:
                os.set_blocking(descriptor, False)
            self._watch_child()
        except OSError as error:
            self._give_up()
            raise EnvironmentStartError(f"cannot start {argv[0]}: {error.strerror or error}") from error

    def _give_up(self) -> None:
        """Free the resources after a failed start."""
        if child := getattr(self, "_child", None):
            child.kill()
            child.wait()
        for file in self._files:
            file.close()

    def _open_pipes(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, start_new_session=True
        )
        self._child = child
        assert child.stdin and child.stdout and child.stderr
        self._files = (child.stdin, child.stdout, child.stderr)
        self._input = child.stdin.fileno()
        self._channels = {child.stdout.fileno(): Channel.STDOUT, child.stderr.fileno(): Channel.STDERR}

    def _open_terminal(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, terminal: Terminal
    ) -> None:
        ours, theirs = os.openpty()
        try:
            set_size(ours, terminal)  # before a program can query the size
            wrapped = ["/bin/sh", "-c", _OPEN_TERMINAL, os.ttyname(theirs), *argv]
            self._child = subprocess.Popen(
                wrapped, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._files = (open(ours, "r+b", buffering=0),)  # noqa: SIM115
        self._input = ours
        self._channels = {ours: Channel.STDOUT}

    @property
    def pid(self) -> int:
        """The process id of the child, if it is a child of this process."""
        assert isinstance(self._child, subprocess.Popen)
        return self._child.pid

    # The end of the child, by a pidfd, or by a thread on systems without pidfd.

    def _watch_child(self) -> None:
        if isinstance(self._child, subprocess.Popen) and hasattr(os, "pidfd_open"):
            self._end_of_child = os.pidfd_open(self._child.pid)

    def _begin(self) -> None:
        thread = current()
        self._loop, self._poller = thread.loop, thread.poller
        self._look, self._rest = thread.timer(REST), thread.timer(LONG_REST)
        self._outgoing = Outgoing(self._input, self._end_input)
        self._code: asyncio.Future[int] = self._loop.create_future()
        if self._end_of_child >= 0:
            self._poller.watch_readable(self._end_of_child, self._child_ended)
        else:
            threading.Thread(target=self._wait_for_child, name="hermes-child", daemon=True).start()
        self._read_all()

    def _wait_for_child(self) -> None:
        self._child.wait()
        current().soon(self._child_ended)

    def _child_ended(self) -> None:
        if self._end_of_child >= 0:
            self._poller.watch_readable(self._end_of_child, None)
            os.close(self._end_of_child)
            self._end_of_child = -1
        code = self._child.wait()
        self._code.set_result(code if code >= 0 else 128 - code)
        if not self._is_paused:
            self._read_rest()

    # Reading.

    def _read_all(self) -> None:
        for descriptor in self._channels:
            self._poller.watch_readable(descriptor, partial(self._readable, descriptor))

    def rest(self, *, reports: bool) -> None:
        # Leaves standard error unread for a moment after a command, and unwatched for a while. A report comes in many
        # writes. Each would wake the loop, and compete with the caller for the interpreter lock.
        if self._has_terminal or self._is_paused:
            return
        descriptor = self._files[2].fileno()
        if not reports:
            if self._is_resting:
                self._look.cancel(self)
                self._rest.schedule(self, self._watch_again)
            return
        if self._is_resting:
            self._rest.cancel(self)
            self._readable(descriptor)  # the previous report: keeps the pipe from filling up
        elif descriptor in self._channels:
            self._is_resting = True
            self._poller.watch_readable(descriptor, None)
        self._look.schedule(self, partial(self._look_at_report, descriptor))

    def _look_at_report(self, descriptor: int) -> None:
        self._readable(descriptor)
        if not self._rest.is_scheduled(self):  # the report is incomplete
            self._watch_again()

    def _watch_again(self) -> None:
        if self._is_resting:
            self._is_resting = False
            self._look.cancel(self)
            self._rest.cancel(self)
            if not self._is_paused:
                self._read_all()

    def pause(self) -> None:
        self._is_paused = True
        for descriptor in self._channels:
            self._poller.watch_readable(descriptor, None)

    def resume(self) -> None:
        self._watch_again()
        if self._is_paused and not self._is_closed:
            self._is_paused = False
            self._read_all()
            if self._code.done():
                self._loop.call_soon(self._read_rest)

    def _readable(self, descriptor: int) -> bool:
        """Read once. Returns True if any bytes arrived."""
        if self._is_paused or descriptor not in self._channels:
            return False
        try:
            data = os.read(descriptor, self._size)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO on Linux: the last process has closed the terminal
                raise
            data = b""
        channel = self._channels[descriptor]
        if not data:
            self._drop(descriptor)
            return False
        if self._size == PIPE_SIZE == len(data):
            self._enlarge()
        self.receiver.data_received(channel, data)
        return True

    def _drop(self, descriptor: int) -> None:
        self._poller.watch_readable(descriptor, None)
        del self._channels[descriptor]
        if self._code.done() and not self._channels:
            self._end()

    def _enlarge(self) -> None:
        self._size = LARGE_PIPE_SIZE
        for descriptor in self._channels:
            with contextlib.suppress(OSError, AttributeError):  # the user's limit may be reached; exists on Linux alone
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, LARGE_PIPE_SIZE)

    def _read_rest(self) -> None:
        """Read the rest of an ended child's output. Its own children may hold the pipes open for hours."""
        for _ in range(MOST_READS):
            has_more = False
            for descriptor in list(self._channels):
                has_more = self._readable(descriptor) or has_more
            if not has_more:
                if not self._is_paused:
                    self._end()
                return
        self._loop.call_soon(self._read_rest)

    # Writing.

    def write(self, data: bytes) -> None:
        self._outgoing.write(data)

    @property
    def is_sent(self) -> bool:
        return not self._outgoing

    async def drain(self) -> None:
        await self._outgoing.drain()

    def close_write(self) -> None:
        if self._has_terminal:
            self.write(b"\x04")  # control-D
        else:
            self._outgoing.close_write()

    def _end_input(self) -> None:
        self._files[0].close()
        self._input = -1

    def unread(self) -> int | None:
        if self._has_terminal:
            return None
        if self._input < 0:
            return 0
        in_pipe = fcntl.ioctl(self._input, termios.FIONREAD, bytes(4))
        return int.from_bytes(in_pipe, sys.byteorder) + len(self._outgoing)

    async def resize(self, terminal: Terminal) -> None:
        if self._has_terminal and not self._is_closed:
            set_size(self._input, terminal)

    # The end.

    async def exit_code(self, timeout: float) -> int | None:
        return self._code.result() if await done_within(self._code, timeout) else None

    async def close(self) -> None:
        # A child of another user is left to end by itself.
        if not self._is_closed:
            self.pause()
            self._is_closed = True
            self._look.cancel(self)
            self._rest.cancel(self)
            self._outgoing.close()
            may_kill = True
            if not self._code.done():
                try:
                    self._child.kill()
                except PermissionError:  # such as sudo, which ends with its shell, and the shell with its input
                    may_kill = False
            for file in self._files:
                file.close()
            self._channels.clear()
            self._input = -1
            if not may_kill:
                await done_within(self._code, LEAVE_LIMIT)
                self._end()
                return
        await shielded(self._code)
        self._end()


def set_size(descriptor: int, terminal: Terminal) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))
