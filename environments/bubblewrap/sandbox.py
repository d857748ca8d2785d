"""A running sandbox: bubblewrap's process, the first process within, and the way to start others there."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from environments.errors import EnvironmentStartError, TerminalError
from environments.bubblewrap.child import SandboxedChild
from environments.bubblewrap.filter import call_filter
from environments.bubblewrap.first_process import LARGEST_REQUEST, READY
from environments.bubblewrap.refusal import start_error
from environments.owner import MARKER_VARIABLE

START_LIMIT = 30.0
"""Seconds in which a sandbox must be up, on a busy machine too."""
END_LIMIT = 10.0
"""Seconds in which all its processes must be gone after KILL."""
ASK_LIMIT = 10.0
"""Seconds in which a request must be taken, and a terminal come."""
_FIRST_PROCESS = Path(__file__).with_name("first_process.py")
_SEEN_AS = "/run/first_process.py"

_running: weakref.WeakSet[Sandbox] = weakref.WeakSet()


class Sandbox:
    """Namespaces that end with this process, however that ends.

    bubblewrap's `--die-with-parent` is not used: it is tied to the thread that has started it, and environments are
    started by threads that end. The first process within ends when our side of its socket is closed, and when
    bubblewrap's process outside ends.

    Args:
        program: bubblewrap.
        options: What it is to do, up to the program that it runs.
        variables: The variables of what runs within.
        marker: The value of the marker variable, by which it is known whose the sandbox is.
        python: The Python for the first process, which has to be seen within.

    Raises:
        EnvironmentStartError: It could not be started.
        UnsupportedError: This machine's kernel does not allow it.
    """

    def __init__(
        self, program: str, options: Sequence[str], variables: Mapping[str, str], marker: str, python: str
    ) -> None:
        self._pidfd = -1
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        info, info_write = os.pipe()
        calls = _in_memory(call_filter())
        ways = ["--info-fd", str(info_write), "--seccomp", str(calls), "--ro-bind", str(_FIRST_PROCESS), _SEEN_AS]
        given = [*options, *ways, *(word for item in variables.items() for word in ("--setenv", *item))]
        # Through a file: the values are nobody's business, and variables of its own might lead a program to libraries.
        options_file = _in_memory("\0".join(given).encode("utf-8", "surrogateescape"))
        theirs = control.detach(), info_write, calls, options_file
        argv = [program, "--args", str(options_file), "--", python, "-IS", _SEEN_AS, str(theirs[0])]
        with os.fdopen(info, "rb", buffering=0) as about:
            try:
                self._outside = _start(argv, {MARKER_VARIABLE: marker}, theirs)
            except BaseException:
                self._control.close()
                raise
            finally:
                for descriptor in theirs:
                    os.close(descriptor)
            try:
                self._await_ready(about.fileno())
            except BaseException:
                self.end()
                raise
        _running.add(self)

    def _await_ready(self, info: int) -> None:
        """Learn which process is the first, and wait until it takes requests."""
        deadline = time.monotonic() + START_LIMIT
        assert self._outside.stderr
        with self._outside.stderr as errors:
            about = b""
            while not about.endswith(b"}\n") and _readable(info, deadline) and (part := os.read(info, 4096)):
                about += part  # it is written piece by piece
            if about.endswith(b"}\n"):
                self.pid = int(json.loads(about)["child-pid"])
                with contextlib.suppress(ProcessLookupError):
                    self._pidfd = os.pidfd_open(self.pid)
            ready = self._pidfd >= 0 and _readable(self._control.fileno(), deadline) and self._received() == READY
            if not ready:
                self._kill()
                raise start_error(errors.read(64 * 1024) if _readable(errors.fileno(), deadline) else b"")
        self._control.settimeout(ASK_LIMIT)

    def _received(self) -> bytes:
        try:
            return self._control.recv(len(READY))
        except ConnectionResetError:
            return b""

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or is about to.

        A process closes its files before it ends, and only then are the others of its namespace killed. So a shell of
        the sandbox that was killed in this way finds its sandbox gone.
        """
        poll = select.poll()
        try:
            poll.register(self._control, 0)
        except ValueError:  # we have ended it
            return True
        return bool(poll.poll(0))

    def spawn(self, argv: Sequence[str], streams: Sequence[int]) -> SandboxedChild:
        """Start a program.

        Args:
            argv: The program with its arguments.
            streams: What it reads and writes, three descriptors; none of them for a terminal of its own.

        Raises:
            OSError: The sandbox is gone, or does not answer.
        """
        request = "\0".join(argv).encode("utf-8", "surrogateescape")
        if len(request) > LARGEST_REQUEST:
            raise OSError(f"a request of {len(request)} bytes is too long for the sandbox")
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [request], [theirs.fileno(), *streams])
            return SandboxedChild(status, ASK_LIMIT, has_terminal=not streams)
        except BaseException:
            status.close()
            raise

    def end(self) -> None:
        """Kill everything within, and wait until it is gone.

        Raises:
            TerminalError: It did not end.
        """
        _running.discard(self)
        self._kill()
        self._control.close()
        try:
            self._outside.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            raise TerminalError(
                f"backend 'local': the sandbox of process {self._outside.pid} did not end {END_LIMIT:.0f} s after KILL"
            ) from None
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1

    def _kill(self) -> None:
        if self._pidfd < 0:
            self._outside.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def forget(self) -> None:
        """In a forked child: let go of the socket, which would keep the sandbox running after the parent's end."""
        self._control.close()


def _in_memory(data: bytes) -> int:
    """Return a descriptor to read data from."""
    descriptor = os.memfd_create("options")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _start(argv: list[str], environment: Mapping[str, str], inherited: Sequence[int]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=inherited,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentStartError(f"backend 'local' cannot start {argv[0]}: {error.strerror or error}") from error


def _readable(descriptor: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _forget_all() -> None:
    for sandbox in list(_running):
        sandbox.forget()


os.register_at_fork(after_in_child=_forget_all)
