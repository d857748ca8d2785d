"""The process that something belongs to. It is written on that, so that an orphan is known as one."""

from __future__ import annotations

import contextlib
import os
import zlib
from functools import cache
from typing import Literal, NamedTuple, Self

Standing = Literal["live", "orphan", "elsewhere"]
"""Whether the process that something belongs to still runs, has ended, or is of another machine, where it cannot be
seen."""

MARKER_VARIABLE = "HERMES_COMMAND"
"""Environment variable that names the command a process in a target belongs to, as `ENVIRONMENT/SHELL/NUMBER/`. The
name of an environment begins with the mark of its owner."""


class Owner(NamedTuple):
    """A process, told from a later one with the same id by the moment it started."""

    host: str
    """The machine, and on Linux the process namespace: a container has process ids of its own. In a mark it is the
    checksum of that."""
    pid: int
    started: str
    """Its start, in the words of the operating system; only to be compared. Read from a name, the rest of that
    follows."""

    @classmethod
    def this_process(cls) -> Self:
        """Return this process."""
        return cls(_host(), os.getpid(), _started(os.getpid()) or "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the output of `str()`; None if it is something else."""
        words = text.split()
        if len(words) != 3 or not words[1].isdigit():
            return None
        return cls(words[0], int(words[1]), words[2])

    @classmethod
    def in_name(cls, name: str) -> Self | None:
        """Read the `mark` that a name is, or begins with before a `-`; None if it is something else."""
        host, pid, started = [*name.split("-", 2), "", ""][:3]
        return cls(host, int(pid), started) if pid.isdigit() else None

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started}"

    @property
    def mark(self) -> str:
        """The owner in letters, digits, `-`, `_` and `.` alone, as part of a name; `in_name` reads it."""
        return f"{_checksum(self.host)}-{self.pid}-{self.started}"

    @property
    def is_gone(self) -> bool:
        """True if the process is known to have ended. Of one on another host nothing is known."""
        return self.standing == "orphan"

    @property
    def standing(self) -> Standing:
        """Whether the process still runs, as far as that can be known."""
        if self.host not in (_host(), _checksum(_host())):
            return "elsewhere"
        return "live" if f"{self.started}-".startswith(f"{_started(self.pid)}-") else "orphan"


UNKNOWN = Owner("", 0, "")
"""A process that cannot be seen."""


def _checksum(host: str) -> str:
    return f"{zlib.crc32(host.encode()):08x}"


@cache
def _host() -> str:
    name = os.uname().nodename or "localhost"  # which `socket` says too, and takes its time to import
    try:
        return f"{name}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115  # nor is pathlib needed for it
    except OSError:
        return name


def _started(pid: int) -> str | None:
    """Return when a process started, None if there is none."""
    try:
        # The name, in parentheses, may hold spaces. The start is the 22nd field, in clock ticks since boot.
        with open(f"/proc/{pid}/stat", errors="surrogateescape") as file:
            ticks = file.read().rpartition(")")[2].split()[19]
        return f"{_boot()}-{ticks}"
    except OSError:
        pass
    if os.path.exists("/proc/self/stat"):  # noqa: PTH110
        return None
    import subprocess  # where there is no /proc

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
