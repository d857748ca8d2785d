"""Finds processes on this machine, among those of other tests."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from environments import BaseEnvironment
from environments.conformance.check import wait_until


def processes_with(argument: str) -> list[psutil.Process]:
    """Return the processes with a text in their arguments."""
    found = []
    for folder in Path("/proc").iterdir():  # psutil takes ten times as long
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            if folder.name.isdigit() and argument.encode() in (folder / "cmdline").read_bytes():
                found.append(psutil.Process(int(folder.name)))
    return found


def sleepers(seconds: str) -> list[psutil.Process]:
    """Return the processes that are `sleep SECONDS`."""
    return [process for process in processes_with(seconds) if _arguments(process) == ["sleep", seconds]]


def _arguments(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def is_dead(pid: int) -> bool:
    """Return True once a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def all_gone(argument: str) -> bool:
    """Return True if within two seconds no process is left with a text in its arguments."""
    return wait_until(lambda: not processes_with(argument), 2)


def newest_pid(env: BaseEnvironment) -> int:
    """Return the id of the newest process of a target. The look starts a process of its own."""
    return int(env.execute_oneshot("read -r _ _ _ _ newest </proc/loadavg; echo $newest").output)
