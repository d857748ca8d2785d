"""Listing of environments on this machine or an SSH host: their processes and directories outside of containers."""

from __future__ import annotations

import contextlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from environments.files import removal_command
from environments.found_target import FoundTarget
from environments.owner import Owner
from environments.shell.cleanup import end_processes_of
from environments.shell.dialect.commands import THERE_NOW
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.process_table import TICKS, is_number

# Host, process id, process start in the form of Linux or other systems, and the environment's own part.
_ID = re.compile(r"([0-9a-f]{8}-[0-9]+-(?:(?:[0-9a-f]{8})?-[0-9]+|[A-Z][\w.-]+-[0-9]{4})-[0-9a-f]{8})(?:-.*)?")

Open = Callable[[], PersistentShellEnvironment]
"""Makes an environment on the machine."""


@dataclass(slots=True)
class _Seen:
    """Processes and directories of one environment."""

    processes: int = 0
    age: float = 0.0
    """Seconds since the start of the oldest process."""
    directories: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes in the directories."""


class _MachineAccess:
    """Access to a machine: one environment during the listing, later a new one for each removal.

    Args:
        open_there: Makes an environment there.
    """

    def __init__(self, open_there: Open) -> None:
        self._open = open_there
        self._env: PersistentShellEnvironment | None = None

    @contextlib.contextmanager
    def held(self) -> Iterator[PersistentShellEnvironment]:
        """Return an environment there, shared with `reached` during the block."""
        with self._open() as env:
            self._env = env
            try:
                yield env
            finally:
                self._env = None

    @contextlib.contextmanager
    def reached(self) -> Iterator[PersistentShellEnvironment]:
        """Return an environment there."""
        if self._env:
            yield self._env
        else:
            with self._open() as env:
                yield env


def list_environments(open_there: Open, place: str = "") -> Iterator[FoundTarget]:
    """Yield the environments of any backend with processes or directories on a machine, except the listing ones.

    Args:
        open_there: Makes an environment there, now and for a later removal.
        place: The machine's name; empty for this machine.
    """
    access = _MachineAccess(open_there)
    with access.held() as env:
        for name, found in sorted(_look(env).items()):
            yield FoundTarget(
                "environment",
                name.rpartition("-")[2],
                "running" if found.processes else "kept",
                partial(_end, access, name),
                owner=Owner.in_name(name),
                name=name,
                place=place,
                created=time.time() - found.age if found.processes else None,
                size=found.size,
            )


def _look(env: PersistentShellEnvironment) -> dict[str, _Seen]:
    """Return processes and directories by environment, except those of `env`."""
    env.internal.execute("true")
    said = [line.partition(" ")[::2] for line in env.run_control(THERE_NOW).output.splitlines()]
    uptime = float(next((words.split()[0] for kind, words in said if kind == "uptime" and words), "0"))
    seen: dict[str, _Seen] = defaultdict(_Seen)
    stat = ""
    for kind, words in said:
        if kind == "stat":
            stat = words
        elif kind == "process":
            # The marker of a nested environment ends with the inner name.
            name = words.rpartition(":")[2].partition("/")[0]
            if (found := _ID.fullmatch(name)) and found[1] != env.id:
                _add_process(seen[found[1]], stat, uptime)
        elif kind == "directory":
            size, _, path = words.partition("\t")
            path = path.rstrip("/")
            if (found := _ID.fullmatch(path.rpartition("/hermes-")[2])) and found[1] != env.id:
                _add_directory(seen[found[1]], path, size)
    return dict(seen)


def _add_process(seen: _Seen, stat: str, uptime: float) -> None:
    seen.processes += 1
    fields = stat.split()
    if len(fields) > 19 and is_number(fields[19]):  # start time: field 20 after the process's name
        seen.age = max(seen.age, uptime - int(fields[19]) / TICKS)


def _add_directory(seen: _Seen, path: str, size: str) -> None:
    if path not in seen.directories:
        seen.directories.append(path)
        seen.size += int(size) * 1024 if is_number(size) else 0


def _end(access: _MachineAccess, name: str) -> None:
    """End the processes of an environment, and remove its directories."""
    with access.reached() as env:
        end_processes_of(env, name)
        if seen := _look(env).get(name):
            for directory in seen.directories:
                env.run_control(removal_command(directory))
