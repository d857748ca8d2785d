"""A running sandbox: the bubblewrap process, the first process inside, and requests to start others."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from environments.bubblewrap.first_process import MAX_REQUEST, READY
from environments.bubblewrap.mounts import SYSTEM, is_within, real
from environments.errors import EnvironmentStartError, TerminalError, UnsupportedError
from environments.owner import MARKER_VARIABLE

START_LIMIT = 30.0
"""Seconds for the start of a sandbox, also on a busy machine."""
END_LIMIT = 10.0
"""Seconds from KILL to the end of all processes."""
REQUEST_LIMIT = 10.0
"""Seconds for a request, and for the answer with a terminal."""
_CREDENTIALS = struct.Struct("iII")
"""Process id, user id and group id of a message's sender."""
_FIRST_PROCESS = Path(__file__).with_name("first_process.py")
_PATH_INSIDE = "/run/first_process.py"

_controls: weakref.WeakSet[socket.socket] = weakref.WeakSet()
"""Our ends of the sockets of running sandboxes."""


class Sandbox:
    """Namespaces that end with this process, in any way.

    bubblewrap's `--die-with-parent` is not used: it follows the thread of the start, and environments are started by
    short-lived threads. Instead, the first process ends when our end of its socket is closed, or when the bubblewrap
    process outside ends.

    Args:
        program: Path of bubblewrap.
        options: Options of bubblewrap, except for the program to run.
        variables: Variables of processes in the sandbox.
        marker: Value of the marker variable, for the owner of the sandbox.

    Raises:
        EnvironmentStartError: The sandbox could not be started.
        UnsupportedError: The kernel of this machine does not allow sandboxes.
    """

    def __init__(self, program: str, options: Sequence[str], variables: Mapping[str, str], marker: str) -> None:
        self._pidfd = -1
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _controls.add(self._control)
        calls = _in_memory(call_filter())
        own = ["--seccomp", str(calls), "--ro-bind", str(_FIRST_PROCESS), _PATH_INSIDE]
        given = [*options, *own, *(word for item in variables.items() for word in ("--setenv", *item))]
        # The options go through a file: arguments are visible to other users, and in bubblewrap's own environment the
        # variables could make it load other libraries.
        options_file = _in_memory("\0".join(given).encode("utf-8", "surrogateescape"))
        theirs = control.detach(), calls, options_file
        try:
            self._bwrap = subprocess.Popen(
                [program, "--args", str(options_file), "--", sys.executable, "-IS", _PATH_INSIDE, str(theirs[0])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={MARKER_VARIABLE: marker},
                pass_fds=theirs,
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            raise EnvironmentStartError(
                f"backend 'bubblewrap' cannot start {program}: {error.strerror or error}"
            ) from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        try:
            self._await_ready()
        except BaseException:
            self.end()
            raise

    def _await_ready(self) -> None:
        """Wait until the first process serves requests, and store the sender's id, added by the kernel."""
        deadline = time.monotonic() + START_LIMIT
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        assert self._bwrap.stderr
        with self._bwrap.stderr as errors:
            with contextlib.suppress(ConnectionResetError, ProcessLookupError):
                if _readable(self._control.fileno(), deadline):
                    size = socket.CMSG_SPACE(_CREDENTIALS.size)
                    message, ancillary, _, _ = self._control.recvmsg(len(READY), size)
                    if message == READY:
                        self.pid = _CREDENTIALS.unpack(ancillary[0][2])[0]
                        self._pidfd = os.pidfd_open(self.pid)
            if self._pidfd < 0:
                self._bwrap.kill()
                raise start_error(errors.read(64 * 1024) if _readable(errors.fileno(), deadline) else b"")
        self._control.settimeout(REQUEST_LIMIT)

    @property
    def has_ended(self) -> bool:
        """True if the sandbox has ended, or is ending.

        An ending process first closes its files; only then are the others of its namespace killed. So this is
        True already when the kernel kills a shell of the sandbox.
        """
        poll = select.poll()
        try:
            poll.register(self._control, 0)
        except ValueError:  # closed by `end`
            return True
        return bool(poll.poll(0))

    def spawn(self, argv: Sequence[str], streams: Sequence[int]) -> socket.socket:
        """Start a program, and return the socket of the process, see `first_process`.

        Args:
            argv: The program with its arguments.
            streams: Standard input, output and error; empty for a new terminal.

        Raises:
            OSError: The sandbox has ended, or does not answer.
        """
        request = "\0".join(argv).encode("utf-8", "surrogateescape")
        if len(request) > MAX_REQUEST:
            raise OSError(f"a request of {len(request)} bytes is too long for the sandbox")
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                socket.send_fds(self._control, [request], [theirs.fileno(), *streams])
        except BaseException:
            status.close()
            raise
        return status

    def end(self) -> None:
        """Kill all processes of the sandbox, and wait for their end.

        Raises:
            TerminalError: The processes did not end.
        """
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd >= 0:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        try:
            self._bwrap.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            raise TerminalError(
                f"backend 'bubblewrap': the sandbox of process {self._bwrap.pid} did not end {END_LIMIT:.0f} s after "
                "KILL"
            ) from None
        finally:
            if self._pidfd >= 0:
                os.close(self._pidfd)
                self._pidfd = -1


def _in_memory(data: bytes) -> int:
    """Return a descriptor to read the data from."""
    descriptor = os.memfd_create("options")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _readable(descriptor: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))


def _close_controls() -> None:
    """In a forked child: close the sockets, or sandboxes would outlive the parent."""
    for control in list(_controls):
        control.close()


os.register_at_fork(after_in_child=_close_controls)


TRIAL_LIMIT = 30.0
_UNUSABLE = "backend 'bubblewrap' cannot be used here"
_HINT = "Backend 'local' runs commands without a sandbox"
_KERNEL_REFUSALS = ("namespace", "uid map", "gid map", "operation not permitted")
"""Words in bubblewrap's message if the kernel refuses. The message for a missing path has none of them."""


def find_program(writable: Sequence[Path] = ()) -> str:
    """Return the path of bubblewrap.

    Args:
        writable: Directories to exclude, as a script may have written a program there.

    Raises:
        UnsupportedError: bubblewrap is not installed.
    """
    named = [Path(path) for path in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    safe = [str(path) for path in named if path.is_absolute() and not is_within(real(path), writable)]
    found = shutil.which("bwrap", path=os.pathsep.join(safe))
    if found is None:
        raise UnsupportedError(f"{_UNUSABLE}: there is no `bwrap` on PATH; install the package bubblewrap. {_HINT}")
    return found


def start_error(printed: bytes) -> TerminalError:
    """Return the error for a failed start.

    Args:
        printed: Output of bubblewrap or of the first process.
    """
    lines = printed.decode("utf-8", "replace").strip().splitlines()
    why = lines[-1].removeprefix("bwrap: ") if lines else "it gave no reason"
    if any(word in why.lower() for word in _KERNEL_REFUSALS):
        return UnsupportedError(
            f"{_UNUSABLE}: {why}. The kernel has to let this user make namespaces: look at `sysctl "
            "kernel.unprivileged_userns_clone user.max_user_namespaces kernel.apparmor_restrict_unprivileged_userns`, "
            f"or in a container at its seccomp profile; or use another backend. {_HINT}"
        )
    return EnvironmentStartError(f"backend 'bubblewrap' cannot start its sandbox: {why}")


def trial() -> str:
    """Start a sandbox with only the system's directories, and return bubblewrap's version.

    Raises:
        UnsupportedError: bubblewrap is not installed, or the kernel does not allow sandboxes.
        EnvironmentStartError: The start failed for another reason.
    """
    program = find_program()
    # Not the whole machine: mounts that appear and vanish meanwhile, such as those of containers, would make it fail.
    shown = [word for path in (*SYSTEM, program) for word in ("--ro-bind-try", str(path), str(path))]
    tried = [program, "--unshare-all", *shown, "--proc", "/proc", "--dev", "/dev", "--", program, "--version"]
    try:
        done = subprocess.run(tried, capture_output=True, timeout=TRIAL_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentStartError(f"backend 'bubblewrap' cannot start {program}: {error}") from error
    if done.returncode != 0:
        raise start_error(done.stderr)
    return done.stdout.decode("utf-8", "replace").strip()


_KEYRINGS: Mapping[int, tuple[int, int, int]] = {
    0xC000003E: (248, 249, 250),  # x86-64
    0x40000003: (286, 287, 288),  # i386
    0xC00000B7: (217, 218, 219),  # aarch64
    0x40000028: (309, 310, 311),  # arm
    0xC00000F3: (217, 218, 219),  # riscv64
    0xC0000015: (269, 270, 271),  # ppc64le
    0x80000016: (278, 279, 280),  # s390x
}
"""Numbers of add_key, request_key and keyctl, by AUDIT_ARCH_* of linux/audit.h. A kernel may support several.

These calls are refused: no namespace isolates the kernel's keys. A Kerberos ticket or a disk's key is available to all
processes of the user.
"""
_X32 = 0x40000000
"""From this number on, system calls of an x86-64 kernel belong to a third architecture (x32), which is not in use."""

# From linux/filter.h and linux/seccomp.h; offsets into seccomp_data. A step is a code, the number of steps to skip
# after a failed test, and a value.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS


def call_filter() -> bytes:
    """Return the seccomp filter of system calls, as a program for the kernel's packet filter."""
    steps = []
    for architecture, numbers in _KEYRINGS.items():
        tests = [(_AT_LEAST, _X32), *((_EQUAL, number) for number in numbers)]
        steps += [(_LOAD, 0, _ARCHITECTURE), (_EQUAL, 2 * len(tests) + 2, architecture), (_LOAD, 0, _NUMBER)]
        for test, number in tests:
            steps += [(test, 1, number), (_RETURN, 0, _REFUSE)]
        steps.append((_RETURN, 0, _ALLOW))
    steps.append((_RETURN, 0, _REFUSE))  # an architecture with unknown numbers
    return b"".join(struct.pack("HBBI", code, 0, skipped, value) for code, skipped, value in steps)
