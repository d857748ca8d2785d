"""The process that owns a target or a file, recorded on each, to recognise the orphans of dead processes."""

from __future__ import annotations

import contextlib
import os
import zlib
from functools import cache
from typing import Literal, NamedTuple, Self

Standing = Literal["live", "orphan", "elsewhere"]
"""State of the owner: running, ended, or on another machine with invisible processes."""

MARKER_VARIABLE = "HERMES_COMMAND"
"""Environment variable on each process of a command in a target: the command's marker `ENVIRONMENT/SHELL/NUMBER/`.
An environment's name begins with the owner's mark."""


class Owner(NamedTuple):
    """A process, distinguished from later processes with the same id by its start time."""

    host: str
    """Machine, and on Linux the process namespace: a container has its own process ids. A mark holds the checksum
    instead."""
    pid: int
    started: str
    """Start time in the operating system's format, for comparison only. When parsed from a name, the rest of the
    name follows."""

    @classmethod
    def this_process(cls) -> Self:
        """Return this process."""
        return cls(_host(), os.getpid(), _started(os.getpid()) or "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse the output of `str()`; None for other text."""
        words = text.split()
        if len(words) != 3 or not words[1].isdigit():
            return None
        return cls(words[0], int(words[1]), words[2])

    @classmethod
    def in_name(cls, name: str) -> Self | None:
        """Parse a name that is a `mark`, or begins with a mark and `-`; None for other names."""
        host, pid, started = [*name.split("-", 2), "", ""][:3]
        return cls(host, int(pid), started) if pid.isdigit() else None

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started}"

    @property
    def mark(self) -> str:
        """The owner as part of a name, in letters, digits, `-`, `_` and `.`; parsed by `in_name`."""
        return f"{_checksum(self.host)}-{self.pid}-{self.started}"

    @property
    def is_gone(self) -> bool:
        """True if the process is known to have ended. The state of a process on another host is unknown."""
        return self.standing == "orphan"

    @property
    def standing(self) -> Standing:
        """Current state of the process, if visible."""
        if self.host not in (_host(), _checksum(_host())):
            return "elsewhere"
        return "live" if f"{self.started}-".startswith(f"{_started(self.pid)}-") else "orphan"


UNKNOWN = Owner("", 0, "")
"""An invisible process."""


def _checksum(host: str) -> str:
    return f"{zlib.crc32(host.encode()):08x}"


@cache
def _host() -> str:
    name = os.uname().nodename or "localhost"  # like `socket.gethostname`, which is slow to import
    try:
        return f"{name}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  # avoids pathlib
    except OSError:
        return name


def _started(pid: int) -> str | None:
    """Return the start time of a process; None without such a process."""
    try:
        # The name, in parentheses, may hold spaces. The start is the 22nd field, in clock ticks since boot.
        with open(f"/proc/{pid}/stat", errors="surrogateescape") as file:
            ticks = file.read().rpartition(")")[2].split()[19]
        return f"{_boot()}-{ticks}"
    except OSError:
        pass
    if os.path.exists("/proc/self/stat"):  # noqa: PTH110
        return None
    import subprocess  # without /proc

    asked = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return "-".join(asked.stdout.replace(":", ".").split()) or None


@cache
def _boot() -> str:
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().partition("-")[0]
    return ""
