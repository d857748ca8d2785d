"""A process in a sandbox, which the sandbox's first process has started for us."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess

from environments.bubblewrap.first_process import TERMINAL, received

REAP_LIMIT = 5.0
"""Seconds in which a process must have ended after KILL."""


class SandboxedChild:
    """As much of `subprocess.Popen` as a stream needs, for a process that is not our own child.

    Args:
        status: The socket that its exit code comes through.
        limit: Seconds in which its terminal must come.
        has_terminal: Whether it was given one.

    Raises:
        OSError: The terminal did not come.
    """

    def __init__(self, status: socket.socket, limit: float, *, has_terminal: bool) -> None:
        self._status = status
        self._code: int | None = None
        self.terminal = self._received_terminal(limit) if has_terminal else -1
        """Our end of its terminal, which whoever uses it closes."""

    def _received_terminal(self, limit: float) -> int:
        if not self._told(limit):
            raise TimeoutError(f"no terminal came within {limit:.0f} s")
        said, descriptors = received(self._status, len(TERMINAL), 1)
        if said != TERMINAL or not descriptors:
            raise BrokenPipeError("the sandbox has no terminal to give")
        return descriptors[0]

    def watch(self) -> int:
        """Return a new descriptor that can be read from once the process has ended."""
        return os.dup(self._status.fileno())

    def poll(self) -> int | None:
        """Return the exit code (the negative number of the signal that killed it), or None while it runs."""
        if self._code is None and self._told(0):
            said = b""
            with contextlib.suppress(OSError):  # it may be closed meanwhile
                said = self._status.recv(16, socket.MSG_PEEK)  # and left there, as several may wait for it
            self._code = int(said) if said else -signal.SIGKILL
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code.

        Args:
            timeout: Seconds; None is for a process that was killed.

        Raises:
            subprocess.TimeoutExpired: It has not ended.
        """
        if self._code is None:
            self._told(REAP_LIMIT if timeout is None else timeout)
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

    def _told(self, timeout: float) -> bool:
        poll = select.poll()
        try:
            poll.register(self._status, select.POLLIN)
        except ValueError:  # it is closed, after the end
            return True
        return bool(poll.poll(timeout * 1000))
