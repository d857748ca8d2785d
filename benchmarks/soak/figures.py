"""What may not grow, as numbers."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from benchmarks.memory import resident_bytes
from benchmarks.soak import visible
from environments import BaseEnvironment
from environments.loop import KEPT_WORKERS, WorkerThread

SETTLING = 30.0
"""Seconds in which what has ended has to be gone, on a machine that is busy with other things too."""
_DESCRIPTORS = Path("/proc/self/fd")
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is at one moment."""

    memory: float
    """Megabytes that this process has."""
    threads: int
    """Of this process."""
    descriptors: int
    """Of this process."""
    shells: int
    """Our own shells in the target."""
    processes: int
    """What commands and scripts have started there."""
    scratch: int
    """Files and directories in our directory there."""
    files: int
    """Files and directories with this process's name in the directories for such, here and there."""

    def above(self, first: Figures, slack: Figures) -> list[str]:
        """Return by what these are more than the first ones, where it is more than may be."""
        return [
            f"{field.name}: {getattr(self, field.name)}, and at first {getattr(first, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) > getattr(first, field.name) + getattr(slack, field.name)
        ]


SLACK = Figures(memory=60, threads=6, descriptors=40, shells=10, processes=0, scratch=1, files=0)
"""How much more there may be. Up to four idle shells of either kind are kept, each with its descriptors; memory is what
an allocator keeps for the next large output; an input whose shell was killed before it was read lies there until the
cleanup."""


def look(env: BaseEnvironment, name: str, settled: Callable[[Figures], bool]) -> Figures:
    """Wait until what there is has settled, and return it; after `SETTLING` seconds also if it has not."""
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
        shells=len(visible.shells(name)),
        processes=sum(not visible.is_ours(marker) for marker in visible.marked(name).values()),
        scratch=in_scratch,
        files=max(in_target, len(visible.files_here())),
    )


def scratch_entries(env: BaseEnvironment) -> list[str]:
    """Return what is in our directory in the target."""
    return env.execute_oneshot(f"find {env.internal.scratch_directory()}").output.splitlines()


def left_behind(name: str, threads: set[threading.Thread], descriptors: int) -> Iterator[str]:
    """Return what is there of an environment that was cleaned up.

    Args:
        name: Its name.
        threads: Those there were before it.
        descriptors: How many there were before it.
    """
    deadline = time.monotonic() + SETTLING
    left: list[str] = []
    while time.monotonic() < deadline:
        left = [f"thread {each.name}" for each in threading.enumerate() if each not in threads and not _stays(each)]
        left += [f"process {pid} {marker}" for pid, marker in visible.marked(name).items()]
        left += visible.files_here()
        opened = open_files()
        if len(opened) > descriptors:
            left += [f"{len(opened) - descriptors} of {opened}"]
        if not left:
            break
        time.sleep(0.2)
    yield from left


def _stays(thread: threading.Thread) -> bool:
    """Whether a thread is one of those that environments leave to the next ones."""
    return isinstance(thread, WorkerThread) and thread.number <= KEPT_WORKERS


def open_files() -> list[str]:
    """Return what the descriptors of this process lead to."""
    found = []
    for path in _DESCRIPTORS.iterdir():
        try:
            found.append(os.readlink(path))  # noqa: PTH115 - they are no paths
        except OSError:  # the one that was opened to look
            continue
    return found
