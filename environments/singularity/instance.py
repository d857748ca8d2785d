"""Running instances: their records, their processes, and ending them fast and for certain.

`instance stop` takes 1 to 3 seconds. KILL to the instance's first process ends everything in it at once, as that is
the init of a process namespace; the engine's process above it then removes the record, the cgroup and, where an image
had to be unpacked, the copy. What that leaves is the log files.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import PurePosixPath

from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import readable
from environments.owner import UNKNOWN, Owner
from environments.singularity.client import Client
from environments.singularity.machine import INIT_LIMIT, Machine
from environments.singularity.this_machine import THIS_MACHINE

PREFIX = "hermes-"
"""What the names of our instances begin with, before the mark of their owner."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the engine has written down about an instance."""

    name: str
    pid: int
    logs: tuple[PurePosixPath, ...]
    ip: str = ""
    """Its address on a network of its own, if it has one."""


def new_name(task: str) -> str:
    """Return a name for an instance that says which process it belongs to, and what it is for."""
    return f"{PREFIX}{Owner.this_process().mark}-{secrets.token_hex(6)}-{readable(task) or '_'}"


def records(client: Client, name: str | None = None) -> list[Record]:
    """Return the running instances of this user, or the one with this name. The engine drops dead records meanwhile.

    Raises:
        TerminalError: The engine could not list them.
    """
    outcome = client.run("--silent", "instance", "list", "--json", *([name] if name else []))
    if not outcome.ok:
        raise TerminalError(f"backend 'singularity' cannot list instances: {outcome.reason}")
    found, _ = json.JSONDecoder().raw_decode(outcome.text.lstrip())
    return [
        Record(
            entry["instance"],
            int(entry["pid"]),
            tuple(PurePosixPath(entry[key]) for key in ("logErrPath", "logOutPath") if entry.get(key)),
            str(entry.get("ip") or ""),
        )
        for entry in found.get("instances") or ()
    ]


def orphans(machine: Machine = THIS_MACHINE) -> list[str]:
    """Return the names of the instances of this package whose owner's process is gone. Without an engine, none."""
    try:
        client = Client.found(machine)
    except EnvironmentStartError:
        return []
    return [
        record.name for record in records(client) if record.name.startswith(PREFIX) and owner_of(record.name).is_gone
    ]


def remove(name: str, machine: Machine = THIS_MACHINE) -> None:
    """End an instance, and free all that it holds. One that is gone already is none to end.

    Raises:
        TerminalError: Its processes did not end.
    """
    client = Client.found(machine)
    for record in records(client, name):
        Instance(client, record).end()


def owner_of(name: str) -> Owner:
    """Return the owner of an instance of ours by its name. One that cannot be read is elsewhere."""
    return Owner.in_name(name.removeprefix(PREFIX)) or UNKNOWN


class Instance:
    """A running instance, held by its two processes: a number of theirs that is given out anew does not mislead."""

    def __init__(self, client: Client, record: Record) -> None:
        self.name = record.name
        self.pid = record.pid
        self._client = client
        self._record = record
        self._processes = client.machine.hold(record.pid, record.name)

    def through(self, client: Client) -> Instance:
        """Return the same instance, seen through the client of another environment: each has a link of its own."""
        return Instance(client, self._record) if client.machine.place else self

    @property
    def ip(self) -> str:
        """Its address on a network of its own, if it has one."""
        return self._record.ip

    @property
    def has_own_network(self) -> bool:
        """Whether it is on another network than its machine."""
        return self._processes.have_own_network

    def release(self) -> None:
        """Let go of it, and leave it running."""
        self._processes.release()

    @property
    def running(self) -> bool:
        """Whether its first process is there, and is not about to end."""
        return self._processes.running

    def end(self) -> None:
        """End all its processes, and wait until the engine has freed what it held.

        Raises:
            TerminalError: They did not end.
        """
        try:
            if not self._processes.end():
                raise TerminalError(
                    f"backend 'singularity': a process of instance {self.name} did not end {INIT_LIMIT:.0f} s after "
                    "KILL, or later"
                )
        finally:
            self._processes.release()
        self._client.machine.remove(*self._record.logs)
        if any(record.name == self.name for record in records(self._client, self.name)):
            raise TerminalError(f"backend 'singularity': instance {self.name} is still listed after its end")
