"""Running instances: their records, their processes, their start, and ending them fast and for certain.

`instance stop` takes 1 to 3 seconds. KILL to the instance's first process ends everything in it at once, as that is
the init of a process namespace; the engine's process above it, the monitor, then removes the record, the cgroup and,
where an image had to be unpacked, the copy. Only the log files are left.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from environments.errors import EnvironmentStartError, TerminalError
from environments.found_target import readable
from environments.owner import UNKNOWN, Owner
from environments.settings import EnvironmentSettings
from environments.shell.memory import kills
from environments.shell.stream import Stream, Terminal
from environments.singularity.client import Client
from environments.singularity.machine import THIS_MACHINE, Machine
from environments.singularity.options import overlay, refuse_ignored_binds, refuse_limits_without_effect, start_error
from environments.starting import current_start, unstoppable

PREFIX = "hermes-"
"""The beginning of the names of our instances, before the mark of their owner."""
_INIT_LIMIT = 10
"""Seconds in which the processes of an instance must be gone after KILL."""
_MONITOR_LIMIT = 60
"""Seconds the monitor may take to clean up. Removing an unpacked image is many files."""
_EXITING = 0x4
"""PF_EXITING among the flags of a process, see proc(5)."""
_CGROUPS = PurePosixPath("/sys/fs/cgroup")

# A process is known by its number and the time it was started, so that a number that is given out anew does not
# mislead. The fields of /proc/PID/stat behind its name are 1 its state, 2 its parent, 7 its flags, 20 its start.
_SEE = f"""\
see() {{
    {{ read -r stat <"/proc/$1/stat"; }} 2>/dev/null || return
    set -f -- ${{stat##*)}}
    parent=$2 start=${{20}}
    [ "$1" != Z ] && [ "$1" != X ] && {{ [ "$exiting" ] || [ $(($7 & {_EXITING})) = 0 ]; }}
}}
exiting=
"""
# A record may be older than the machine's last start, and its number another process's. The monitor has the instance's
# name in its title.
_HOLD = f"""\
{_SEE}
see "$1" || exit 0
first=$start monitor=$parent
see "$monitor" || exit 0
case $(tr '\\0' ' ' <"/proc/$monitor/cmdline") in *"[$2]"*) ;; *) exit 0 ;; esac
network=$(readlink "/proc/$1/ns/net")
[ -n "$network" ] && [ "$network" != "$(readlink /proc/self/ns/net)" ] && own=own
echo "$first $monitor $start $own"
printf '\\0'
cat "/proc/$1/cgroup" 2>/dev/null
printf '\\0'
cat /proc/self/cgroup 2>/dev/null
:
"""
_RUNNING = f"""\
{_SEE}
see "$1" && [ "$start" = "$2" ] && echo yes
:
"""
_CHECK = f"""\
{_SEE}
see "$1" && [ "$start" = "$2" ] || exit 255
shift 2
"""
_END = f"""\
{_SEE}
exiting=counts
gone() {{
    looks=0
    while see "$1" && [ "$start" = "$2" ]; do
        [ $((looks += 1)) -le $(($3 * 50)) ] || return
        if [ $looks -le 50 ]; then sleep 0.001; else sleep 0.02; fi
    done
}}
kill_and_wait() {{ see "$1" && [ "$start" = "$2" ] && kill -KILL "$1" 2>/dev/null; gone "$@"; }}
if [ "$2" ]; then
    kill_and_wait "$1" "$2" {_INIT_LIMIT} || exit 0
    gone "$3" "$4" {_MONITOR_LIMIT} || kill_and_wait "$3" "$4" {_MONITOR_LIMIT} || exit 0
fi
shift 4
rm -f -- "$@"
echo gone
"""
_AT_HOME = """\
{ mkdir -p "$HOME" && cd "$HOME" || cd /tmp || cd /; } 2>/dev/null
exec "$@"
"""
"""A user's home is in the container by name only. Where it can be made, that is where tools keep their files."""


@dataclass(frozen=True, slots=True)
class Record:
    """The engine's record of an instance."""

    name: str
    pid: int
    logs: tuple[PurePosixPath, ...]
    ip: str = ""
    """Its address on a network of its own, if it has one."""


def records(client: Client, name: str | None = None) -> list[Record]:
    """Return the running instances of this user, or the one with this name. The engine drops dead records meanwhile.

    Raises:
        TerminalError: The engine could not list them.
    """
    outcome = client.run("--silent", "instance", "list", "--json", *([name] if name else []), is_short=True)
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
        Instance.of(client, record).end(client)


def owner_of(name: str) -> Owner:
    """Return the owner of an instance of ours by its name. One that cannot be read is elsewhere."""
    return Owner.in_name(name.removeprefix(PREFIX)) or UNKNOWN


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance, as it was found running. Each environment asks for it over a link of its own."""

    record: Record
    processes: tuple[str, ...]
    """When its first process was started, the monitor, and when that was started; empty if it did not run."""
    has_own_network: bool
    """Whether it is on another network than its machine."""
    cgroups: str
    """/proc/PID/cgroup of its first process."""
    has_own_cgroup: bool
    """Whether it has limits of its own."""
    made_of: tuple[str, ...] = ()
    """The image and the options that it was started with."""

    @classmethod
    def of(cls, client: Client, record: Record, made_of: tuple[str, ...] = ()) -> Instance:
        """Return the instance of a record."""
        line, _, cgroups = client.machine.ask(_HOLD, str(record.pid), record.name).partition("\0")
        theirs, _, ours = cgroups.partition("\0")
        processes = tuple(line.split())
        return cls(record, processes[:3], processes[3:] == ("own",), theirs, theirs != ours, made_of)

    @classmethod
    def started(cls, client: Client, settings: EnvironmentSettings, options: Sequence[str], image: str) -> Instance:
        """Start an instance with its writable layer.

        Args:
            client: The engine.
            settings: All settings, of which those of the layer are used.
            options: The result of `start_options`.
            image: The path of the image.

        Raises:
            EnvironmentStartError: It does not start.
            SettingsError: The settings contradict each other, or kept files.
            UnsupportedError: A setting cannot be had here.
        """
        name = f"{PREFIX}{Owner.this_process().mark}-{secrets.token_hex(6)}-{readable(settings.task_id) or '_'}"
        with overlay(client, settings, image) as layer:
            current_start().report("starting an instance")
            try:
                outcome = client.run("--quiet", "instance", "start", *options, *layer, image, name)
                found = records(client, name) if outcome.ok else []
                if not found:
                    raise start_error(settings, image, outcome)
                refuse_ignored_binds(settings, outcome.text)
                instance = cls.of(client, found[0], (image, *options))
                if not instance.processes:
                    raise EnvironmentStartError(f"backend 'singularity': the instance of {image} ended as it started")
                refuse_limits_without_effect(settings, instance.cgroups, client.machine)
            except BaseException:
                with unstoppable(), contextlib.suppress(TerminalError):
                    remove(name, client.machine)
                raise
        return instance

    @property
    def name(self) -> str:
        """Its name, which the engine knows it by."""
        return self.record.name

    def is_running(self, machine: Machine) -> bool:
        """Return whether its first process exists, and is not about to end."""
        if not self.processes:
            return False
        return bool(machine.ask(_RUNNING, str(self.record.pid), self.processes[0]))

    def open_stream(self, client: Client, argv: Sequence[str], terminal: Terminal | None) -> Stream:
        """Start a process in it. Its stream ends at once if the instance has ended."""
        # Warnings, which would come before the process's output, are silenced. The engine otherwise looks for our own
        # directory in the container, and complains.
        options = ["--silent", "exec", "--cleanenv", "--pwd", "/", f"instance://{self.name}"]
        command = [client.program, *options, "/bin/sh", "-c", _AT_HOME, "sh", *argv]
        return client.machine.open_stream(command, terminal, _CHECK, str(self.record.pid), self.processes[0])

    def memory_kills(self, machine: Machine) -> int:
        """Return how many of its processes the kernel has ended for want of memory; 0 if it has no limits."""
        if not self.has_own_cgroup:
            return 0
        files = []
        for line in self.cgroups.splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                files.append(_CGROUPS / path.lstrip("/") / "memory.events")
            elif "memory" in controllers.split(","):
                files.append(_CGROUPS / "memory" / path.lstrip("/") / "memory.oom_control")
        return max(map(kills, machine.read_all(*files)), default=0)

    def end(self, client: Client) -> None:
        """End all its processes, and wait until the engine has freed its resources.

        Raises:
            TerminalError: They did not end.
        """
        processes = self.processes or ("", "", "")
        if not client.machine.ask(_END, str(self.record.pid), *processes, *map(str, self.record.logs)):
            raise TerminalError(
                f"backend 'singularity': a process of instance {self.name} did not end within {_INIT_LIMIT} s of KILL"
            )
        if records(client, self.name):
            raise TerminalError(f"backend 'singularity': instance {self.name} is still listed after its end")
