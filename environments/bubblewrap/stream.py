"""Stream to a process in a sandbox."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping, Sequence

from environments.bubblewrap.first_process import TERMINAL
from environments.bubblewrap.sandbox import REQUEST_LIMIT, Sandbox
from environments.output import Channel
from environments.shell.child_stream import ChildStream, set_size
from environments.shell.stream import Terminal

REAP_LIMIT = 5.0
"""Seconds from KILL to the end of a process."""


class SandboxedChild:
    """A process started by the sandbox's first process, see `Child`.

    Args:
        status: The socket of the process, for the exit code.
    """

    def __init__(self, status: socket.socket) -> None:
        self.status = status

    def receive_terminal(self) -> int:
        """Return our end of the process's terminal.

        Raises:
            OSError: There was no answer.
        """
        self.status.settimeout(REQUEST_LIMIT)
        message, descriptors, _, _ = socket.recv_fds(self.status, len(TERMINAL), 1)
        if message != TERMINAL:
            raise BrokenPipeError("the sandbox has no terminal to give")
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        # `shutdown` and not `close`: a fork of this process may have the socket too.
        with contextlib.suppress(OSError):
            self.status.shutdown(socket.SHUT_WR)

    def wait(self) -> int:
        """Return the exit code of an ended or killed process, -SIGKILL if the sandbox has ended.

        Returns:
            The exit code, or the negative number of the signal.
        """
        self.status.settimeout(REAP_LIMIT)
        with self.status, contextlib.suppress(OSError):
            if code := self.status.recv(16):
                return int(code)
        return -signal.SIGKILL


class SandboxStream(ChildStream):
    """Reads and writes pipes as those of our own child; the sandbox's first process starts and reaps the process."""

    _child: SandboxedChild

    def __init__(self, sandbox: Sandbox, argv: Sequence[str], terminal: Terminal | None = None) -> None:
        self._sandbox = sandbox
        super().__init__(argv, terminal=terminal)

    def _open_pipes(self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> None:
        (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = os.pipe(), os.pipe(), os.pipe()
        self._files = (open(ours_in, "wb", 0), open(ours_out, "rb", 0), open(ours_err, "rb", 0))  # noqa: SIM115
        try:
            self._child = SandboxedChild(self._sandbox.spawn(argv, (stdin, stdout, stderr)))
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        self._input = ours_in
        self._channels = {ours_out: Channel.STDOUT, ours_err: Channel.STDERR}

    def _open_terminal(
        self, argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, terminal: Terminal
    ) -> None:
        self._child = SandboxedChild(self._sandbox.spawn(argv, ()))
        self._input = self._child.receive_terminal()
        self._files = (open(self._input, "r+b", 0),)  # noqa: SIM115
        self._channels = {self._input: Channel.STDOUT}
        set_size(self._input, terminal)

    def _watch_child(self) -> None:
        self._end_of_child = os.dup(self._child.status.fileno())
