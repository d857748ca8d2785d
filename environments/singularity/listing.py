"""Our instances on a machine, made by any process, and the files that are kept for the next ones."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import PurePosixPath

from environments.claim import Claim
from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import FoundTarget
from environments.singularity.client import Client, claim_name
from environments.singularity.instance import PREFIX, Record, orphans, owner_of, records, remove
from environments.singularity.machine import Machine
from environments.singularity.options import ABOUT, About, kept_folder

_NAME = re.compile(r"-(?P<id>[0-9a-f]{12})(?:-(?P<task>.+))?$")
"""The part of an instance's name behind the mark of its owner."""
_TICKS = 100
"""Ticks of a second in /proc."""

Reach = Callable[[], AbstractContextManager[Machine]]
"""Leads to a machine once more, for as long as a block lasts."""


def list_targets(machine: Machine, reach: Reach) -> Iterator[FoundTarget]:
    """Go through instances and kept files.

    Args:
        machine: Where to look. It has been reached.
        reach: Leads there when something is to be removed.

    Raises:
        TerminalError: The engine, or the machine, does not answer.
    """
    with contextlib.suppress(EnvironmentStartError):  # without an engine there is no instance
        client = Client.found(machine)
        for record in records(client):
            if record.name.startswith(PREFIX):
                yield _instance(machine, reach, record)
    for key in machine.names(kept_folder(machine)):
        yield _kept(machine, reach, key)


def _instance(machine: Machine, reach: Reach, record: Record) -> FoundTarget:
    said = _NAME.search(record.name)
    return FoundTarget(
        "instance",
        said["id"] if said else record.name,
        "running",
        partial(_end, reach, record.name),
        owner=owner_of(record.name),
        task=(said["task"] or "") if said else "",
        name=record.name,
        place=machine.place,
        created=_started(machine, record.pid),
    )


def _started(machine: Machine, pid: int) -> float | None:
    """Return when a process was started; None if it has ended."""
    of_process, of_machine = machine.read_all(PurePosixPath(f"/proc/{pid}/stat"), PurePosixPath("/proc/uptime"))
    stat, uptime = of_process.rpartition(")")[2].split(), of_machine.split()
    return time.time() - float(uptime[0]) + int(stat[19]) / _TICKS if len(stat) > 19 and uptime else None


def _end(reach: Reach, name: str) -> None:
    with reach() as machine:
        remove(name, machine)


def _kept(machine: Machine, reach: Reach, key: str) -> FoundTarget:
    place = kept_folder(machine) / key
    about = About.read(machine.read(place / ABOUT))
    return FoundTarget(
        "files",
        key,
        "kept",
        partial(_remove_kept, reach, key),
        claim=Claim(claim_name(machine, key)),
        task=about.task,
        place=machine.place,
        created=about.created,
        size=machine.disk_usage(place),
    )


def _remove_kept(reach: Reach, key: str) -> None:
    with reach() as machine:
        with contextlib.suppress(EnvironmentStartError):
            for orphan in orphans(machine):  # one of them may have the files open
                remove(orphan, machine)
        place = kept_folder(machine) / key
        machine.remove(place)
        if machine.kind(place):
            raise TerminalError(
                f"backend 'singularity': what is kept as {key} could not be removed whole; remove {place} as the user "
                "it belongs to"
            )
