"""Running instances: their records, their processes, and ending them fast and for certain.

`instance stop` takes 1 to 3 seconds. KILL to the instance's first process ends everything in it at once, as that is
the init of a process namespace; the engine's process above it then removes the record, the cgroup and, where an image
had to be unpacked, the copy. What that leaves is the log files.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from environments.errors import EnvironmentStartError, TerminalError
from environments.owner import Orphan, Owner, mark_is_orphaned
from environments.singularity.client import Client

INIT_LIMIT = 10.0
"""Seconds in which the processes of an instance must be gone after KILL."""
MONITOR_LIMIT = 60.0
"""Seconds the engine's process may take to clean up. Removing an unpacked image is many files."""
_EXITING = 0x4
"""PF_EXITING among the flags of a process, see proc(5)."""
_PREFIX = "hermes-"


@dataclass(frozen=True, slots=True)
class Record:
    """What the engine has written down about an instance."""

    name: str
    pid: int
    logs: tuple[Path, ...]


def new_name() -> str:
    """Return a name for an instance that says which process it belongs to."""
    return f"{_PREFIX}{Owner.this_process().mark}-{secrets.token_hex(6)}"


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
            tuple(Path(entry[key]) for key in ("logErrPath", "logOutPath") if entry.get(key)),
        )
        for entry in found.get("instances") or ()
    ]


def orphans() -> list[str]:
    """Return the names of the instances of this package whose owner's process is gone. Without an engine, none."""
    try:
        client = Client.found()
    except EnvironmentStartError:
        return []
    return [record.name for record in records(client) if _is_orphan(record.name)]


def find_orphans() -> Iterator[Orphan]:
    """Find what `orphans` returns, see `environments.garbage`."""
    for name in orphans():
        yield Orphan(f"instance {name} ended", partial(remove, name))


def remove(name: str) -> None:
    """End an instance, and free all that it holds. One that is gone already is none to end.

    Raises:
        TerminalError: Its processes did not end.
    """
    client = Client.found()
    for record in records(client, name):
        Instance(client, record).end()


def _is_orphan(name: str) -> bool:
    return name.startswith(_PREFIX) and mark_is_orphaned(name.removeprefix(_PREFIX))


class Instance:
    """A running instance, held by its two processes: a number of theirs that is given out anew does not mislead."""

    def __init__(self, client: Client, record: Record) -> None:
        self.name = record.name
        self.pid = record.pid
        self._client = client
        self._logs = record.logs
        monitor = _parent(record.pid)
        # A record may be older than the machine's last start, and its number another process's. The engine's process
        # has the instance's name in its title.
        genuine = monitor is not None and f"[{record.name}]" in _title(monitor)
        self._init = _pidfd(record.pid) if genuine else None
        self._monitor = _pidfd(monitor) if genuine and monitor else None

    @property
    def running(self) -> bool:
        """Whether its first process is there, and is not about to end."""
        # The kernel kills what is in the instance when that process begins to end; its end comes after theirs.
        return self._init is not None and not _is_exiting(self.pid) and not _ended(self._init, 0)

    def end(self) -> None:
        """End all its processes, and wait until the engine has freed what it held.

        Raises:
            TerminalError: They did not end.
        """
        try:
            self._end_process(self._init, at_once=True, limit=INIT_LIMIT)
            self._end_process(self._monitor, at_once=False, limit=MONITOR_LIMIT)
        finally:
            for descriptor in (self._init, self._monitor):
                if descriptor is not None:
                    os.close(descriptor)
            self._init = self._monitor = None
        for log in self._logs:
            log.unlink(missing_ok=True)
        if any(record.name == self.name for record in records(self._client, self.name)):
            raise TerminalError(f"backend 'singularity': instance {self.name} is still listed after its end")

    def _end_process(self, descriptor: int | None, *, at_once: bool, limit: float) -> None:
        if descriptor is None or (not at_once and _ended(descriptor, limit)):
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not _ended(descriptor, limit):
            raise TerminalError(
                f"backend 'singularity': a process of instance {self.name} did not end {limit:.0f} s after KILL"
            )


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _ended(descriptor: int, timeout: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))


def _stat(pid: int) -> list[str]:
    """Return the fields that stand in /proc behind a process's name; nothing if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    stat = _stat(pid)
    return int(stat[1]) if stat else None


def _is_exiting(pid: int) -> bool:
    stat = _stat(pid)
    return not stat or bool(int(stat[6]) & _EXITING)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""
