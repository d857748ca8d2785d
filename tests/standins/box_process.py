"""A process in a box. All output is kept, so a reader may begin anywhere."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import signal
import struct
import subprocess
import tempfile
import termios
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

STDOUT, STDERR = 1, 2
Size = tuple[int, int]
"""Rows and columns of a terminal."""
PIECE = 256 * 1024
IN_MEMORY = 1024 * 1024
"""Bytes of output kept in memory; more goes into a file."""
LOOK_INTERVAL = 0.25
"""Seconds between two checks for a stopped program with a running child."""


def _is_stopped(pid: int | str) -> bool:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"T")


class BoxProcess:
    """A child process of the stand-in. All methods run on one event loop.

    A pidfd reports the process's end. asyncio's `wait` also waits for the end of the pipes: `sleep 9 &` would delay
    the exit code.

    Args:
        argv: The program and its arguments.
        cwd: The working directory.
        env: All environment variables; None for the stand-in's own.
        terminal: The size of a terminal; None for pipes.
        raw: True for a raw terminal, for a program in front of another terminal.
        merge: True to merge stderr into stdout.
        kill: Ends the process in the box, if the end of the child is not enough.
        stops_with_child: True for a program such as nsenter: stopped together with a child, and to be continued with
            that child.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        terminal: Size | None = None,
        raw: bool = False,
        merge: bool = False,
        kill: Callable[[], Awaitable[object]] | None = None,
        stops_with_child: bool = False,
    ) -> None:
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.written = 0
        self.stdin_closed = False
        self._kill = kill
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._stdin_lock = asyncio.Lock()
        self._kept = {c: tempfile.SpooledTemporaryFile(IN_MEMORY) for c in (STDOUT, STDERR)}  # noqa: SIM115
        self._sizes = {STDOUT: 0, STDERR: 0}
        self._open: dict[int, int] = {}
        self._terminal = terminal is not None
        if terminal:
            self._start_on_terminal(argv, cwd, env, terminal, raw)
        else:
            self._start_on_pipes(argv, cwd, env, merge)
        for channel, descriptor in self._open.items():
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._take, channel)
        os.set_blocking(self._stdin, False)
        self._pidfd = os.pidfd_open(self._child.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        if stops_with_child:
            self._go_on_with_child()

    def _go_on_with_child(self) -> None:
        """Continue the stopped program of a running child, and check again later."""
        if self.ended:
            return
        children = Path(f"/proc/{self._child.pid}/task/{self._child.pid}/children")
        with contextlib.suppress(OSError):
            if _is_stopped(self._child.pid) and not any(map(_is_stopped, children.read_text().split())):
                os.kill(self._child.pid, signal.SIGCONT)
        self._loop.call_later(LOOK_INTERVAL, self._go_on_with_child)

    def _start_on_pipes(self, argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, merge: bool) -> None:
        pipe = subprocess.PIPE
        error = subprocess.STDOUT if merge else pipe
        self._child = subprocess.Popen(
            argv, stdin=pipe, stdout=pipe, stderr=error, bufsize=0, cwd=cwd, env=env, start_new_session=True
        )
        assert self._child.stdin and self._child.stdout
        self._stdin = os.dup(self._child.stdin.fileno())
        for channel, file in ((STDOUT, self._child.stdout), (STDERR, self._child.stderr)):
            if file:
                self._open[channel] = os.dup(file.fileno())
                file.close()
        self._child.stdin.close()

    def _start_on_terminal(
        self, argv: Sequence[str], cwd: str | None, env: Mapping[str, str] | None, terminal: Size, raw: bool
    ) -> None:
        ours, theirs = pty.openpty()
        if raw:
            tty.setraw(theirs)
        self._stdin = ours
        self._open[STDOUT] = ours
        self.resize(terminal)
        try:
            self._child = subprocess.Popen(
                ["setsid", "--ctty", *argv], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env
            )
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)

    def _take(self, channel: int) -> None:
        try:
            data = os.read(self._open[channel], PIECE)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # Linux's error once the last process has closed a terminal
                raise
            data = b""
        if data:
            kept = self._kept[channel]
            kept.seek(0, os.SEEK_END)
            kept.write(data)
            self._sizes[channel] += len(data)
        else:
            descriptor = self._open.pop(channel)
            self._loop.remove_reader(descriptor)
            if not self._terminal:
                os.close(descriptor)
        self._notify()

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        code = self._child.wait()
        if code < 0:
            self.signal = -code
        else:
            self.exit_code = code
        self._notify()

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _changed(self) -> None:
        future = self._loop.create_future()
        self._waiting.append(future)
        await future

    @property
    def ended(self) -> bool:
        """True once the process has ended. Children may go on and print."""
        return self.exit_code is not None or self.signal is not None

    async def wait(self) -> int:
        """Wait for the end and return the exit code, 128 + N after signal N."""
        while not self.ended:
            await self._changed()
        return self.exit_code if self.exit_code is not None else 128 + (self.signal or 0)

    def output(self, channel: int, offset: int = 0, limit: int = -1) -> bytes:
        """Return a channel's output so far, from `offset`."""
        kept = self._kept[channel]
        kept.seek(offset)
        return kept.read(limit)

    async def read(self, channel: int, offset: int = 0) -> AsyncIterator[bytes]:
        """Yield a channel's bytes from `offset` to the end. A child with the open pipe delays the end."""
        while True:
            if offset < self._sizes[channel]:
                data = self.output(channel, offset, PIECE)
                offset += len(data)
                yield data
            elif channel in self._open:
                await self._changed()
            else:
                return

    async def write(self, data: bytes, offset: int | None = None, *, eof: bool = False) -> None:
        """Write all data to the process.

        Args:
            data: The bytes.
            offset: Their position in the whole input; bytes already written are skipped.
            eof: True to end the input after the data.

        Raises:
            BrokenPipeError: The process no longer reads.
        """
        async with self._stdin_lock:
            view = memoryview(data)[max(0, self.written - offset) if offset is not None else 0 :]
            while view:
                if self.stdin_closed:
                    raise BrokenPipeError(errno.EPIPE, "the input was closed")
                try:
                    count = os.write(self._stdin, view)
                except BlockingIOError:
                    await self._writable()
                    continue
                self.written += count
                view = view[count:]
            if eof and not self.stdin_closed:
                if self._terminal:
                    os.write(self._stdin, b"\x04")
                else:
                    self._close_stdin()

    async def _writable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_writer(self._stdin, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            self._loop.remove_writer(self._stdin)

    def _close_stdin(self) -> None:
        if not self.stdin_closed:
            self.stdin_closed = True
            os.close(self._stdin)

    def resize(self, size: Size) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

    async def kill(self) -> None:
        """End the process and its process group."""
        if self.ended:
            return
        if self._kill:
            await self._kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        await self.wait()

    def forget(self) -> None:
        """Free the file descriptors and the kept output."""
        for channel, descriptor in list(self._open.items()):
            self._loop.remove_reader(descriptor)
            if not self._terminal:
                os.close(descriptor)
            del self._open[channel]
        self._close_stdin()
        for kept in self._kept.values():
            kept.close()
        self._sizes = dict.fromkeys(self._sizes, 0)
        self._notify()
