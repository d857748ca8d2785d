"""The first process of a sandbox: starts programs on request, and reaps ended processes, also orphans.

Our own Python runs this file in the sandbox. All other processes there descend from the first process, so none has more
rights than the sandbox; a process entering namespaces from outside has more for a moment. When our end of its socket is
closed, the first process ends, and the kernel kills all processes of its namespace.

A request is one message: a program with its arguments, separated by NUL, and descriptors. The first descriptor is a
socket for the new process: the exit code is sent through it, and a shutdown kills the process. The other three are
standard input, output and error. Without these three, the process gets a terminal, and the answer has the terminal's
other end.
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
"""The message at the start of service, and the message that comes with a terminal."""
MAX_REQUEST = 128 * 1024
"""Maximum bytes of a request."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_NOT_FOUND = 127


def main() -> None:
    """Serve the socket of the descriptor in the first argument, until the other end is closed."""
    _protect()
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _FirstProcess(control).serve()
    os._exit(0)


def _protect() -> None:
    """Make the kernel end this process along with the bubblewrap process outside. No process here can undo that.

    The other processes here run as the same user. A process that is not dumpable is protected from tracing.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value in ((_PR_SET_DUMPABLE, 0), (_PR_SET_PDEATHSIG, signal.SIGKILL)):
        if libc.prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


class _FirstProcess:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._statuses: dict[int, socket.socket] = {}
        """Socket of each child, by process id."""
        self._watched: dict[int, int] = {}
        """Process id of each child with an open socket, by the socket's descriptor."""
        self._poll = select.poll()

    def serve(self) -> None:
        """Serve requests until our end of the socket is closed."""
        ended, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel never delivers it to a namespace's first process
        for descriptor in (self._control.fileno(), ended):
            self._poll.register(descriptor, select.POLLIN)
        self._control.send(READY)
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._control.fileno():
                    if not self._handle_request():
                        return
                elif descriptor == ended:
                    os.read(ended, 4096)
                    self._reap()
                elif pid := self._watched.pop(descriptor, None):  # the socket was shut down
                    os.kill(pid, signal.SIGKILL)  # the process id stays valid until the child is reaped
                    self._poll.unregister(descriptor)

    def _handle_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, MAX_REQUEST, 4)
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
        except OSError:  # such as too many processes: only this request fails
            status.close()
        else:
            if pid == 0:
                _exec(data.split(b"\0"), streams)
            self._statuses[pid] = status
            self._watched[status.fileno()] = pid
            self._poll.register(status.fileno(), select.POLLIN)
        for descriptor in streams:
            os.close(descriptor)
        return True

    def _reap(self) -> None:
        """Reap all ended processes: our children, and the orphans of the whole sandbox."""
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
                with status, contextlib.suppress(OSError):  # the stream may be closed
                    status.send(str(os.waitstatus_to_exitcode(how)).encode())


def _exec(argv: list[bytes], streams: list[int]) -> NoReturn:
    """Exec a program in this child, in a session of its own, with pipes or a terminal."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python
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
