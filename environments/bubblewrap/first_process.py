"""The first process of a sandbox: it starts programs on request, and reaps processes that have ended.

Our own Python runs this file in the sandbox. All processes there descend from it, so that none has more rights than the
sandbox; one that enters namespaces from outside has for a moment. When our side of its socket is closed it ends, and
the kernel ends with it all processes of its namespace.

A request is one message: a program with its arguments, separated by NUL, and descriptors. The first of these is a
socket of the new process. Its exit code is sent through it; when our side of it is shut, the process is killed. The
other three are its standard input, output and error. Without them it gets a terminal, and its other end is the answer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
from typing import NoReturn

READY, TERMINAL = b"ready", b"terminal"
"""The message that requests are taken from now on, and the one that the other end of a terminal comes with."""
LARGEST_REQUEST = 128 * 1024
"""Bytes of a request."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_NOT_FOUND = 127


def main() -> None:
    """Serve the socket whose descriptor is the first argument, until its other side is closed."""
    _protect_itself()
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _FirstProcess(control).serve()
    os._exit(0)


def _protect_itself() -> None:
    """Have the kernel end this process with bubblewrap's process outside, and let no process here undo that.

    Any other process here runs as the same user. It cannot trace one that is not dumpable.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_PDEATHSIG, signal.SIGKILL)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


class _FirstProcess:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._statuses: dict[int, socket.socket] = {}
        """The socket of each child, by its process id."""
        self._watched: dict[int, int] = {}
        """The process id of each child whose socket has not been shut, by that socket's descriptor."""
        self._poll = select.poll()

    def serve(self) -> None:
        """Take requests until our side of the socket is closed."""
        ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # of which the kernel spares the first process of a namespace
        for descriptor in (self._control.fileno(), ended):
            self._poll.register(descriptor, select.POLLIN)
        self._control.send(READY)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    if not self._take_request():
                        return
                elif descriptor == ended:
                    os.read(ended, 4096)
                    self._reap()
                elif pid := self._watched.pop(descriptor, None):  # its socket was shut
                    os.kill(pid, signal.SIGKILL)  # it exists until it is reaped
                    self._poll.unregister(descriptor)

    def _take_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST, 4)
        if not data:
            return False
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        status, streams = socket.socket(fileno=descriptors[0]), descriptors[1:]
        try:
            if not streams:
                ours, terminal = os.openpty()
                streams = [terminal]
                socket.send_fds(status, [TERMINAL], [ours])
                os.close(ours)
            pid = os.fork()
        except OSError:  # such as one process too many: only this request fails
            status.close()
        else:
            if pid == 0:
                _become(data.split(b"\0"), streams)
            self._statuses[pid] = status
            self._watched[status.fileno()] = pid
            self._poll.register(status.fileno(), select.POLLIN)
        for descriptor in streams:
            os.close(descriptor)
        return True

    def _reap(self) -> None:
        """Reap all that have ended: our children, and the orphans of the whole sandbox."""
        while True:
            try:
                pid, how = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if status := self._statuses.pop(pid, None):
                if self._watched.pop(status.fileno(), None):
                    self._poll.unregister(status.fileno())
                with status, contextlib.suppress(OSError):  # its stream may be closed
                    status.send(str(os.waitstatus_to_exitcode(how)).encode())


def _become(argv: list[bytes], streams: list[int]) -> NoReturn:
    """Turn this child into a program in a session of its own, with pipes or a terminal."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        if len(streams) == 1:
            os.login_tty(streams[0])
        else:
            os.setsid()
            for target, descriptor in enumerate(streams):
                os.dup2(descriptor, target)
        os.execvp(argv[0], argv)  # noqa: S606 - a request is a program with its arguments
    except OSError as error:
        os.write(2, argv[0] + f": {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_FOUND)


if __name__ == "__main__":
    main()
