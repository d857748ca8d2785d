"""A stream to a process in a sandbox."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence

from environments.bubblewrap.first_process import TERMINAL, received
from environments.bubblewrap.sandbox import ASK_LIMIT, Sandbox
from environments.output import Channel
from environments.shell.child_stream import ChildStream, set_size
from environments.shell.stream import Terminal

REAP_LIMIT = 5.0
"""Seconds in which a process must have ended after KILL."""


class SandboxedChild:
    """As much of `subprocess.Popen` as a stream needs, for a process that the sandbox's first process has started.

    Args:
        status: The socket of the process, which its exit code comes through.
        has_terminal: Whether its terminal comes through it first.

    Raises:
        OSError: The terminal did not come.
    """

    def __init__(self, status: socket.socket, *, has_terminal: bool) -> None:
        self._status = status
        self._code: int | None = None
        try:
            self.terminal = self._receive_terminal() if has_terminal else -1
            """Our end of its terminal, to be closed by the stream."""
        except BaseException:
            status.close()
            raise

    def _receive_terminal(self) -> int:
        if not self._is_readable(ASK_LIMIT):
            raise TimeoutError(f"no terminal came within {ASK_LIMIT:.0f} s")
        message, descriptors = received(self._status, len(TERMINAL), 1)
        if message != TERMINAL or not descriptors:
            raise BrokenPipeError("the sandbox has no terminal to give")
        return descriptors[0]

    def watch(self) -> int:
        """Return a new descriptor that can be read from once the process has ended."""
        return os.dup(self._status.fileno())

    def poll(self) -> int | None:
        """Return the exit code (the negative number of the signal that killed it), or None while it runs."""
        if self._code is None and self._is_readable(0):
            code = b""
            with contextlib.suppress(OSError):  # it may be closed meanwhile
                code = self._status.recv(16, socket.MSG_PEEK)  # and left there, as several may wait for it
            self._code = int(code) if code else -signal.SIGKILL
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code.

        Args:
            timeout: Seconds; None is for a process that was killed.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """
        if self._code is None:
            self._is_readable(REAP_LIMIT if timeout is None else timeout)
        code = self.poll()
        if code is not None:
            return code
        if timeout is None:  # it ends with its sandbox at the latest
            self._code = -signal.SIGKILL
            return self._code
        raise subprocess.TimeoutExpired("a process in a sandbox", timeout)

    def kill(self) -> None:
        """Have it killed. One that has ended is left alone."""
        # Closing would not do: a fork of this process may have the socket too.
        with contextlib.suppress(OSError):
            self._status.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Free the socket."""
        self._status.close()

    def _is_readable(self, timeout: float) -> bool:
        poll = select.poll()
        try:
            poll.register(self._status, select.POLLIN)
        except ValueError:  # it is closed, after the end
            return True
        return bool(poll.poll(timeout * 1000))


class SandboxStream(ChildStream):
    """Reads and writes pipes as of a child of ours; the first process of the sandbox starts and reaps it."""

    def __init__(self, sandbox: Sandbox, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        self._sandbox = sandbox
        super().__init__(argv, terminal=terminal)

    def _open_pipes(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._files = (open(ours_in, "wb", 0), open(ours_out, "rb", 0), open(ours_err, "rb", 0))  # noqa: SIM115
        try:
            self._child = self._sandboxed = self._spawn(argv, (stdin, stdout, stderr))
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        self._input = ours_in
        self._channels = {ours_out: Channel.STDOUT, ours_err: Channel.STDERR}

    def _spawn(self, argv: Sequence[str], streams: Sequence[int]) -> SandboxedChild:
        return SandboxedChild(self._sandbox.spawn(argv, streams), has_terminal=not streams)

    def _open_terminal(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, terminal: Terminal
    ) -> None:
        self._child = self._sandboxed = child = self._spawn(argv, ())
        self._files = (open(child.terminal, "r+b", 0),)  # noqa: SIM115
        self._input = child.terminal
        self._channels = {child.terminal: Channel.STDOUT}
        set_size(child.terminal, terminal)

    def _watch_child(self) -> None:
        self._end_of_child = self._sandboxed.watch()

    async def close(self) -> None:
        """Have the process killed, and close the descriptors, see `Stream.close`."""
        try:
            await super().close()
        finally:
            self._sandboxed.close()
