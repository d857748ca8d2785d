"""A stream to a child process of ours: pipes or a pseudo-terminal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from environments.errors import EnvironmentStartError
from environments.shell.stream import Chunk, Terminal
from environments.sink import Channel

PIPE_SIZE, LARGE_PIPE_SIZE = 64 * 1024, 256 * 1024
"""Bytes that a pipe holds, and while a large output comes, which otherwise costs many more switches. A user's pipes may
hold 64 MB in all, beyond which new ones are tiny, so that none is large without need."""
WRITE_POLL = 0.1
"""Seconds between looks at whether the stream is being closed, while its child does not read."""
LEAVE_LIMIT = 2.0
"""Seconds for a child to end by itself that may not be killed."""
_running: set[Child] = set()
"""The children of open streams. One that goes with an environment that nobody holds any more is so found by that alone,
which ends it, and not by the collector first, which would warn of it."""
_OPEN_TERMINAL = 'exec <>"$0" >&0 2>&0; exec "$@"'
"""A session leader without a terminal gets the first one that it opens."""


class Child(Protocol):
    """The process that a stream leads to, in the words of `subprocess.Popen`."""

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code; raise `subprocess.TimeoutExpired` if it does not come."""

    def kill(self) -> None:
        """Send it KILL."""


class ChildStream:
    """A child process in a session of its own, read through pipes or a pseudo-terminal."""

    _child: Child
    _end: int
    """A descriptor that can be read from once the child has ended."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        terminal: Terminal | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self._read_lock = threading.Lock()
        self._write_lock = threading.Lock()
        self._closed = self._closing = False
        self._pipe_size = PIPE_SIZE
        try:
            if terminal is None:
                self._open_pipes(argv, env, cwd)
            else:
                self._open_terminal(argv, env, cwd, terminal)
        except OSError as error:
            raise EnvironmentStartError(f"cannot start {argv[0]}: {error.strerror or error}") from error
        _running.add(self._child)
        os.set_blocking(self._stdin, False)
        self._poll = select.poll()
        for descriptor in (*self._channels, self._end):
            self._poll.register(descriptor, select.POLLIN)

    def _open_pipes(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        pipe = subprocess.PIPE
        child = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, start_new_session=True
        )
        self._child, self._end = child, os.pidfd_open(child.pid)
        assert child.stdin and child.stdout and child.stderr
        self._stdin = os.dup(child.stdin.fileno())
        self._channels = {
            os.dup(child.stdout.fileno()): Channel.STDOUT,
            os.dup(child.stderr.fileno()): Channel.STDERR,
        }
        for file in (child.stdin, child.stdout, child.stderr):
            file.close()
        self._terminal = False

    def _open_terminal(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, terminal: Terminal
    ) -> None:
        ours, theirs = os.openpty()
        try:
            wrapped = ["/bin/sh", "-c", _OPEN_TERMINAL, os.ttyname(theirs), *argv]
            child = subprocess.Popen(
                wrapped, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=cwd, start_new_session=True
            )
            self._child, self._end = child, os.pidfd_open(child.pid)
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._stdin = ours
        self._channels = {ours: Channel.STDOUT}
        self._terminal = True
        self.resize(terminal)

    def read(self, timeout: float | None) -> Chunk | None:
        """Wait for bytes, see `Stream.read`."""
        deadline = time.monotonic() + timeout if timeout else None
        left = timeout and timeout * 1000
        with self._read_lock:
            while not self._closed:
                ready = [descriptor for descriptor, _ in self._poll.poll(left)]
                if not ready:
                    if timeout == 0:  # nobody waits for output
                        self._size_pipes(PIPE_SIZE)
                    return None
                for descriptor in ready:
                    if (channel := self._channels.get(descriptor)) is None:
                        continue
                    if data := self._read_some(descriptor):
                        if len(data) >= PIPE_SIZE:
                            self._size_pipes(LARGE_PIPE_SIZE)
                        return Chunk(channel, data)
                    self._poll.unregister(descriptor)
                # The child is gone and has left nothing to read; its own children may hold the pipe open for hours.
                if ready == [self._end]:
                    break
                if deadline is not None:
                    left = max(0.0, deadline - time.monotonic()) * 1000
        return Chunk(Channel.STDOUT, b"")

    def _size_pipes(self, size: int) -> None:
        if size == self._pipe_size:
            return
        self._pipe_size = size
        for descriptor in self._channels:
            with contextlib.suppress(OSError):  # the user's share may be used up
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size)

    def _read_some(self, descriptor: int) -> bytes:
        try:
            return os.read(descriptor, self._pipe_size)
        except OSError as error:
            if error.errno == errno.EIO:  # what Linux says when the last process has closed a terminal
                return b""
            raise

    def write(self, data: bytes) -> None:
        """Send all of `data`, see `Stream.write`. Whoever waits for a child that reads nothing is let go by `close`."""
        view = memoryview(data)
        with self._write_lock:
            while view:
                if self._stdin < 0 or self._closing:
                    raise BrokenPipeError(errno.EPIPE, "the stream is closed")
                try:
                    view = view[os.write(self._stdin, view) :]
                except BlockingIOError:
                    room = select.poll()
                    room.register(self._stdin, select.POLLOUT)
                    room.poll(WRITE_POLL * 1000)

    def unread_bytes(self) -> int | None:
        """Return how much of what was written is still in the pipe, see `CountingStream`."""
        if self._terminal:
            return None
        import termios  # for most streams nobody asks

        with self._write_lock:
            if self._stdin < 0:
                return 0
            return int.from_bytes(fcntl.ioctl(self._stdin, termios.FIONREAD, bytes(4)), sys.byteorder)

    def close_write(self) -> None:
        """Let the process see end of file: close the pipe, or type control-D on a terminal."""
        if self._terminal:
            self.write(b"\x04")
            return
        with self._write_lock:
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1

    def resize(self, terminal: Terminal) -> None:
        """Change the terminal's size; with pipes there is none."""
        if self._terminal:
            import struct
            import termios  # most streams are pipes

            size = struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0)
            fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, size)

    def exit_code(self, timeout: float) -> int | None:
        """Return how the child ended, see `Stream.exit_code`."""
        try:
            code = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """Kill the child, reap it, and close the descriptors. One that is another user's is left to end by itself."""
        self._closing = True
        limit = None
        if not self._closed and self._child.poll() is None:
            try:
                self._child.kill()  # which also wakes a reader, so that the lock below is free soon
            except PermissionError:  # such as sudo, which ends with its shell, and that with its input
                limit = LEAVE_LIMIT
                self._leave()
        with self._read_lock, self._write_lock:
            if self._closed:
                return
            self._closed = True
            _running.discard(self._child)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(limit)
            for descriptor in {*self._channels, self._end, self._stdin} - {-1}:
                os.close(descriptor)
            self._stdin = -1

    def _leave(self) -> None:
        with contextlib.suppress(OSError):
            self.close_write()
        self.exit_code(LEAVE_LIMIT)
