"""Looking for processes on this machine, where other tests have theirs at the same time."""

from __future__ import annotations

import psutil

from environments.conformance.check import wait_until


def having(argument: str) -> list[psutil.Process]:
    """Return the processes that have a text among their arguments, or in one of them."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(argument in word for word in process.info["cmdline"] or [])
    ]


def is_dead(pid: int) -> bool:
    """Whether a process has ended, though nobody may have asked for its exit code yet."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def all_gone(argument: str) -> bool:
    """Whether no process has a text in its arguments, at the latest after two seconds."""
    return wait_until(lambda: not having(argument), 2)
