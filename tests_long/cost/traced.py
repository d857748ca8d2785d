"""Counting what a program asks of the system, by strace, which gives the same on a loaded machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from targets.engines import unavailable

from cost import program

_LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)")
_MARK = re.compile(rf'"{program.MARK}([^"]+) (\d+) (\d+)"')
_MADE = re.compile(r"\) += (\d+)")
STARTING = ("clone", "clone3", "fork", "vfork", "execve")
TALKING = (
    "read", "readv", "write", "writev", "sendto", "sendmsg", "recvfrom", "recvmsg", "poll", "ppoll", "select",
    "pselect6", "epoll_wait", "epoll_pwait", "futex", "nanosleep", "clock_nanosleep", "wait4", "waitid",
)  # fmt: skip
"""Those by which one hands something over, looks, or waits. The kernel stops at these alone, and at those that start a
process, since to be traced at all of them would take a program that imports ten times as long."""
MARKING = ("access", "faccessat", "faccessat2")


@dataclass
class Counts:
    """What happened in one stretch of a trace."""

    processes: int = 0
    """Processes that were started, threads not counted."""
    programs: int = 0
    """Programs that such a process became."""
    threads: int = 0
    """Threads that our process started."""
    calls_here: int = 0
    """How often our process talks, see `TALKING`."""
    calls_there: int = 0
    """How often all others do: the shell and what it runs."""
    by_name: Counter[str] = field(default_factory=Counter)
    """What those of our process were, for whoever looks for one too many."""


class Trace:
    """Goes through what strace says, line by line."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.parts: dict[str, tuple[int, list[Counts]]] = {}
        """For each thing, how often it was done first, and the counts of that, and of twice as often."""
        self._now = Counts()
        self._ours: set[str] = set()
        self._begun: dict[str, str] = {}
        for line in lines:
            if found := _LINE.match(line):
                self._take(found[1], found[2], line)

    def _take(self, process: str, call: str, line: str) -> None:
        if not self._ours:
            self._ours.add(process)
        if mark := _MARK.search(line):
            _, parts = self.parts.setdefault(mark[1], (int(mark[2]), []))
            self._now = Counts()
            parts.append(self._now)
        if call in STARTING:
            self._start(process, call, line)
        elif call in TALKING and "<... " not in line:  # the rest of a line was counted when it began
            if process in self._ours:
                self._now.calls_here += 1
                self._now.by_name[call] += 1
            else:
                self._now.calls_there += 1

    def _start(self, process: str, call: str, line: str) -> None:
        begun = self._begun.pop(process, "") + line
        if "<unfinished" in line:
            self._begun[process] = begun
        elif call == "execve":
            self._now.programs += begun.rstrip().endswith("= 0")
        elif made := _MADE.search(line):
            if "CLONE_THREAD" not in begun:
                self._now.processes += 1
            elif process in self._ours:
                self._now.threads += 1
                self._ours.add(made[1])

    def cost(self, name: str) -> dict[str, float]:
        """Return what one of them costs: what twice as often costs more, by how much more often that is."""
        times, (once, twice, *_) = self.parts[name]
        counted = ("processes", "programs", "threads", "calls_here", "calls_there")
        return {each: (getattr(twice, each) - getattr(once, each)) / times for each in counted}


def traced(folder: Path) -> Trace:
    """Run the program, and return what it did."""
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", "/dev/null", "true"], check=False).returncode:
        unavailable("strace is not there, or not allowed here")
    said = folder / "trace"
    # Not every machine has every one of them.
    asked = ",".join(f"?{call}" for call in (*STARTING, *TALKING, *MARKING))
    options = ("-f", "-qq", "--seccomp-bpf", "-e", f"trace={asked}", "-e", "signal=none", "-o", said)
    argv = [strace, *options, sys.executable, "-m", "cost.program"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with said.open(errors="replace") as lines:
        return Trace(lines)
