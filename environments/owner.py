"""Which process something belongs to, which is written on it, so that an orphan is known as one."""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
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
    """The machine, and on Linux the process namespace: a container has process ids of its own."""
    pid: int
    started: str
    """When it started, in the words of the operating system; only to be compared."""

    @classmethod
    def this_process(cls) -> Self:
        """Return this process."""
        return cls(_host(), os.getpid(), _started(os.getpid()) or "")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read what `str()` wrote; None if it is something else."""
        words = text.split()
        if len(words) != 3 or not words[1].isdigit():
            return None
        return cls(words[0], int(words[1]), words[2])

    def __str__(self) -> str:
        return f"{self.host} {self.pid} {self.started}"

    @property
    def mark(self) -> str:
        """The owner in letters, digits, `-`, `_` and `.` alone, as part of a name; `mark_is_orphaned` reads it."""
        return f"{zlib.crc32(self.host.encode()):08x}-{self.pid}-{self.started}"

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended. Of one on another host nothing is known."""
        return self.standing == "orphan"

    @property
    def standing(self) -> Standing:
        """Whether the process still runs, as far as that can be known."""
        if self.host != _host():
            return "elsewhere"
        return "live" if _started(self.pid) == self.started else "orphan"


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something whose owner has died."""

    description: str
    """What it is and what becomes of it, as one line for people."""
    remove: Callable[[], object]
    """Removes it. Raises TerminalError if it can't."""


def mark_is_orphaned(name: str) -> bool:
    """Whether a name that begins with an owner's mark and `-` is of a process of this machine that has ended."""
    return standing_of_mark(name)[0] == "orphan"


def standing_of_mark(name: str) -> tuple[Standing, int | None]:
    """Return what is known of the process whose mark and `-` a name begins with, and its number if it still runs."""
    host, pid, started = [*name.split("-", 2), "", ""][:3]
    here = Owner.this_process()
    if not pid.isdigit() or host != here.mark.partition("-")[0]:
        return "elsewhere", None
    if f"{started}-".startswith(f"{_started(int(pid))}-"):
        return "live", int(pid)
    return "orphan", None


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
