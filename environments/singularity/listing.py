"""Instances of ours on a machine, made by any process, and files kept for later instances."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

from environments.claim import Claim
from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import FoundTarget
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client, claim_name
from environments.singularity.instance import PREFIX, orphans, owner_of, records, remove
from environments.singularity.machine import Machine, connected
from environments.singularity.options import ABOUT, kept_folder

_NAME = re.compile(r"-(?P<id>[0-9a-f]{12})(?:-(?P<task>.+))?$")
"""The part of an instance's name after the mark of its owner."""
_TICKS = 100
"""Clock ticks per second in /proc."""


def list_targets(settings: EnvironmentSettings) -> Iterator[FoundTarget]:
    """Yield the instances and the kept files on the machine of the settings.

    Raises:
        EnvironmentStartError: The machine cannot be reached.
        TerminalError: The engine, or the machine, does not answer.
    """
    with connected(settings) as machine:
        with contextlib.suppress(EnvironmentStartError):  # without an engine there are no instances
            for record in records(Client.find(machine)):
                if record.name.startswith(PREFIX):
                    parts = _NAME.search(record.name)
                    yield FoundTarget(
                        "instance",
                        parts["id"] if parts else record.name,
                        "running",
                        partial(_end, settings, record.name),
                        owner=owner_of(record.name),
                        task=(parts["task"] or "") if parts else "",
                        name=record.name,
                        place=machine.place,
                        created=_start_time(machine, record.pid),
                    )
        for key in machine.names(kept_folder(machine)):
            task, created = _description(machine, key)
            yield FoundTarget(
                "files",
                key,
                "kept",
                partial(_remove_kept, settings, key),
                claim=Claim(claim_name(machine, key)),
                task=task,
                place=machine.place,
                created=created,
                size=machine.disk_usage(kept_folder(machine) / key),
            )


def _start_time(machine: Machine, pid: int) -> float | None:
    """Return the start time of a process; None after its end."""
    of_process, of_machine = machine.read_all(PurePosixPath(f"/proc/{pid}/stat"), PurePosixPath("/proc/uptime"))
    stat, uptime = of_process.rpartition(")")[2].split(), of_machine.split()
    return time.time() - float(uptime[0]) + int(stat[19]) / _TICKS if len(stat) > 19 and uptime else None


def _description(machine: Machine, key: str) -> tuple[str, float | None]:
    """Return the task and the creation time of kept files, as far as their description can be read."""
    try:
        about = json.loads(machine.read_all(kept_folder(machine) / key / ABOUT)[0])
        return str(about.get("task", "")), float(about["created"]) if about.get("created") else None
    except (ValueError, TypeError, AttributeError):
        return "", None


def _end(settings: EnvironmentSettings, name: str) -> None:
    with connected(settings) as machine:
        remove(name, machine)


def _remove_kept(settings: EnvironmentSettings, key: str) -> None:
    with connected(settings) as machine:
        for orphan in orphans(machine):  # an orphan may have the files open
            remove(orphan, machine)
        place = kept_folder(machine) / key
        machine.remove(place)
        if machine.kind(place):
            raise TerminalError(
                f"backend 'singularity': the kept files {key} could not be removed completely; remove {place} as its "
                "owner"
            )
