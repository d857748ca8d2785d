"""What environments have, or have left, on a machine that they only run shells on: this one, or one behind SSH."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from environments.files import removing
from environments.found_target import FoundTarget, refuse_use
from environments.owner import Orphan, mark_is_orphaned, standing_of_mark
from environments.shell.cleanup import end_processes_of
from environments.shell.dialect.commands import THERE_NOW
from environments.shell.environment import PersistentShellEnvironment
from environments.shell.process_table import TICKS, is_number

# A host and a process, when that was started, as Linux says it or others do, and what is the environment's own.
_ID = re.compile(r"([0-9a-f]{8}-[0-9]+-(?:[0-9a-f]{8}-[0-9]+|[A-Z][\w:-]+-[0-9]{4})-[0-9a-f]{8})(?:-.*)?")

Open = Callable[[], PersistentShellEnvironment]
"""Makes an environment that runs its commands there."""


@dataclass(slots=True)
class _Seen:
    """What one environment has there."""

    processes: int = 0
    age: float = 0.0
    """Seconds since the oldest of its processes was started."""
    directories: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes in its directories."""


def orphans_in(env: PersistentShellEnvironment) -> Iterator[Orphan]:
    """Find what environments, of any backend, have left where `env` runs its commands, and whose process was killed."""
    for name, found in sorted(_look(env).items()):
        if not mark_is_orphaned(name):
            continue
        if found.processes:
            yield Orphan(f"ended the processes of {name}", partial(end_processes_of, env, name))
        for directory in found.directories:
            yield Orphan(f"removed {directory}", partial(env.run_control, removing(directory)))


def environments_on(open_there: Open, place: str = "") -> Iterator[FoundTarget]:
    """Go through the environments that have something on a machine, without those that are asked with.

    Args:
        open_there: Leads there, now and when something is to be removed.
        place: What the machine is called; empty if it is this one.
    """
    with open_there() as env:
        seen = _look(env)
    for name, found in sorted(seen.items()):
        standing, pid = standing_of_mark(name)
        yield FoundTarget(
            "environment",
            name.rpartition("-")[2],
            "running" if found.processes else "kept",
            standing,
            partial(_end, open_there, name),
            name=name,
            place=place,
            pid=pid,
            created=time.time() - found.age if found.processes else None,
            size=found.size,
        )


def _look(env: PersistentShellEnvironment) -> dict[str, _Seen]:
    """Return what each environment but `env` has where that runs its commands."""
    env.internal.execute("true")
    said = [line.partition(" ")[::2] for line in env.run_control(THERE_NOW).output.splitlines()]
    uptime = float(next((words.split()[0] for kind, words in said if kind == "uptime" and words), "0"))
    seen: dict[str, _Seen] = defaultdict(_Seen)
    before = ""
    for kind, words in said:
        # Of what one environment has started from within another's command, the inner one stands last.
        name = words.rpartition(":")[2].partition("/")[0] if kind == "process" else words.rpartition("/hermes-")[2]
        if kind in ("process", "directory") and (found := _ID.fullmatch(name)) and found[1] != env.id:
            _add(seen[found[1]], kind, words, before, uptime)
        before = words
    return dict(seen)


def _add(seen: _Seen, kind: str, words: str, before: str, uptime: float) -> None:
    """Add a process or a directory, of which the line before says more."""
    numbers = [word for word in before.split() if is_number(word)]
    if kind == "directory" and words not in seen.directories:
        seen.directories.append(words)
        seen.size += int(numbers[0]) * 1024 if numbers else 0
    elif kind == "process":
        seen.processes += 1
        fields = before.split()
        if len(fields) > 19 and is_number(fields[19]):  # behind the process's name the 20th is when it was started
            seen.age = max(seen.age, uptime - int(fields[19]) / TICKS)


def _end(open_there: Open, name: str, force: bool) -> None:
    """End the processes of an environment, and remove its directories."""
    with open_there() as env:
        what = f"backend {env.settings.env!r}: environment {name.rpartition('-')[2]}"
        refuse_use(what, standing_of_mark(name)[0], force)
        end_processes_of(env, name)
        if seen := _look(env).get(name):
            for directory in seen.directories:
                env.run_control(removing(directory))
