"""The figures of the soak test, which must not grow."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.memory import resident_bytes
from benchmarks.soak import processes
from environments import BaseEnvironment
from environments.loop import KEPT_WORKERS, WorkerThread

SETTLING = 30.0
"""Seconds in which ended processes and threads must be gone, on a busy machine too."""
_DESCRIPTORS = Path("/proc/self/fd")
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one moment."""

    memory: float
    """Megabytes of this process."""
    threads: int
    """Of this process."""
    descriptors: int
    """Of this process."""
    shells: int
    """Internal shells in the target."""
    processes: int
    """Processes of commands and scripts in the target."""
    scratch: int
    """Files and directories in our scratch directory in the target."""
    files: int
    """Files and directories with this process's name in temporary directories, on this machine and in the target."""

    def above(self, first: Figures, slack: Figures) -> list[str]:
        """Return the growth since the first figures, where above the allowance."""
        return [
            f"{field.name}: {getattr(self, field.name)}, and at first {getattr(first, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) > getattr(first, field.name) + getattr(slack, field.name)
        ]


SLACK = Figures(memory=60, threads=6, descriptors=40, shells=10, processes=0, scratch=1, files=0)
"""The allowed growth. Up to four idle shells of either kind are kept, each with its descriptors; an allocator keeps
memory for the next large output; an unread input of a killed shell stays until the cleanup."""


def settled_figures(env: BaseEnvironment, name: str, settled: Callable[[Figures], bool]) -> Figures:
    """Wait until the figures have settled, at most `SETTLING` seconds, and return them."""
    deadline = time.monotonic() + SETTLING
    while not settled(figures := _figures(env, name)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return figures


def _figures(env: BaseEnvironment, name: str) -> Figures:
    scratch = env.internal.scratch_directory()
    count = f"find {scratch} | wc -l; ls -d /tmp/hermes-* 2>/dev/null | grep -c -e {name}"
    in_scratch, in_target = map(int, env.execute_oneshot(count).output.split())
    gc.collect()
    return Figures(
        memory=resident_bytes() / _MEGABYTE,
        threads=threading.active_count(),
        descriptors=len(list(_DESCRIPTORS.iterdir())),
        shells=len(processes.internal_shells(name)),
        processes=sum(not processes.is_internal(marker) for marker in processes.marked_processes(name).values()),
        scratch=in_scratch,
        files=max(in_target, len(processes.local_files())),
    )


def scratch_entries(env: BaseEnvironment) -> list[str]:
    """Return the names in our scratch directory in the target."""
    return env.execute_oneshot(f"find {env.internal.scratch_directory()}").output.splitlines()


def leftovers(name: str, threads: set[threading.Thread], descriptors: int) -> Iterator[str]:
    """Yield the leftovers of an environment after its cleanup.

    Args:
        name: The environment's name.
        threads: The threads before the environment.
        descriptors: The number of descriptors before the environment.
    """
    deadline = time.monotonic() + SETTLING
    left: list[str] = []
    while time.monotonic() < deadline:
        left = [f"thread {each.name}" for each in threading.enumerate() if each not in threads and not _is_kept(each)]
        left += [f"process {pid} {marker}" for pid, marker in processes.marked_processes(name).items()]
        left += processes.local_files()
        opened = open_files()
        if len(opened) > descriptors:
            left += [f"{len(opened) - descriptors} of {opened}"]
        if not left:
            break
        time.sleep(0.2)
    yield from left


def _is_kept(thread: threading.Thread) -> bool:
    """Return True for a worker thread that is kept for later environments."""
    return isinstance(thread, WorkerThread) and thread.number <= KEPT_WORKERS


def open_files() -> list[str]:
    """Return the targets of the descriptors of this process."""
    found = []
    for path in _DESCRIPTORS.iterdir():
        try:
            found.append(os.readlink(path))  # noqa: PTH115 - some targets are no paths
        except OSError:  # the descriptor of the listing itself
            continue
    return found
