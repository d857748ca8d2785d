"""Running instances: records, processes, start, and a fast and certain end.

`instance stop` takes 1 to 3 seconds. KILL to the instance's first process ends all its processes at once: that
process is the init of a process namespace. The engine's monitor, the parent of the first process, then removes the
record, the cgroup and, for an image that had to be unpacked, the copy. Only the log files are left.
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
"""The beginning of our instances' names; the mark of the owner follows."""
_INIT_LIMIT = 10
"""Seconds from KILL to the end of the instance's processes."""
_MONITOR_LIMIT = 60
"""Seconds for the monitor to clean up: an unpacked image has many files to remove."""
_EXITING = 0x4
"""PF_EXITING among the flags of a process, see proc(5)."""
_CGROUPS = PurePosixPath("/sys/fs/cgroup")

# A process is identified by its number and its start time, since numbers are reused. In /proc/PID/stat, the fields
# after the name are 1 its state, 2 its parent, 7 its flags, 20 its start time.
_ALIVE = f"""\
alive() {{
    {{ read -r stat <"/proc/$1/stat"; }} 2>/dev/null || return
    set -f -- ${{stat##*)}}
    parent=$2 start=${{20}}
    [ "$1" != Z ] && [ "$1" != X ] && {{ [ "$exiting" ] || [ $(($7 & {_EXITING})) = 0 ]; }}
}}
exiting=
"""
# A record may be older than the machine's last boot, and its number another process's. The title of the monitor has the
# instance's name.
_INSPECT = f"""\
{_ALIVE}
alive "$1" || exit 0
first=$start monitor=$parent
alive "$monitor" || exit 0
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
{_ALIVE}
alive "$1" && [ "$start" = "$2" ] && echo yes
:
"""
_CHECK = f"""\
{_ALIVE}
alive "$1" && [ "$start" = "$2" ] || exit 255
shift 2
"""
_END = f"""\
{_ALIVE}
exiting=counts
gone() {{
    looks=0
    while alive "$1" && [ "$start" = "$2" ]; do
        [ $((looks += 1)) -le $(($3 * 50)) ] || return
        if [ $looks -le 50 ]; then sleep 0.001; else sleep 0.02; fi
    done
}}
kill_and_wait() {{ alive "$1" && [ "$start" = "$2" ] && kill -KILL "$1" 2>/dev/null; gone "$@"; }}
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
"""The user's home is only a name in the container. It is created if possible, as tools keep their files there."""


@dataclass(frozen=True, slots=True)
class Record:
    """The engine's record of an instance."""

    name: str
    pid: int
    logs: tuple[PurePosixPath, ...]
    ip: str = ""
    """Address on a network of its own; may be empty."""


def records(client: Client, name: str | None = None) -> list[Record]:
    """Return the running instances of this user, optionally of one name. The engine drops dead records meanwhile.

    Raises:
        TerminalError: The engine could not list its instances.
    """
    result = client.run("--silent", "instance", "list", "--json", *([name] if name else []), is_short=True)
    if not result.ok:
        raise TerminalError(f"backend 'singularity' cannot list instances: {result.reason}")
    found, _ = json.JSONDecoder().raw_decode(result.text.lstrip())
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
    """Return the names of our orphans: instances whose owner process is gone. Without an engine, there are none."""
    try:
        client = Client.find(machine)
    except EnvironmentStartError:
        return []
    return [
        record.name for record in records(client) if record.name.startswith(PREFIX) and owner_of(record.name).is_gone
    ]


def remove(name: str, machine: Machine = THIS_MACHINE) -> None:
    """End an instance and free its resources. A missing instance is no error.

    Raises:
        TerminalError: Its processes did not end.
    """
    client = Client.find(machine)
    for record in records(client, name):
        Instance.of(client, record).end(client)


def owner_of(name: str) -> Owner:
    """Return the owner of our instance from its name. An unreadable owner counts as a process of another machine."""
    return Owner.in_name(name.removeprefix(PREFIX)) or UNKNOWN


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance, found running. Each environment reaches it over its own link."""

    record: Record
    processes: tuple[str, ...]
    """Start time of its first process, number of the monitor, start time of the monitor; empty if it did not run."""
    has_own_network: bool
    """True if it has a network of its own."""
    cgroups: str
    """Text of /proc/PID/cgroup of its first process."""
    has_own_cgroup: bool
    """True if it has limits of its own."""
    spec: tuple[str, ...] = ()
    """Image and options of its start."""

    @classmethod
    def of(cls, client: Client, record: Record, spec: tuple[str, ...] = ()) -> Instance:
        """Return the instance of a record."""
        line, _, cgroups = client.machine.run_script(_INSPECT, str(record.pid), record.name).partition("\0")
        theirs, _, ours = cgroups.partition("\0")
        processes = tuple(line.split())
        return cls(record, processes[:3], processes[3:] == ("own",), theirs, theirs != ours, spec)

    @classmethod
    def start(cls, client: Client, settings: EnvironmentSettings, options: Sequence[str], image: str) -> Instance:
        """Start an instance with its writable layer.

        Args:
            client: The engine.
            settings: All settings.
            options: The result of `start_options`.
            image: The path of the image.

        Raises:
            EnvironmentStartError: The start failed.
            SettingsError: The settings contradict each other, or kept files.
            UnsupportedError: The machine cannot enforce a setting.
        """
        name = f"{PREFIX}{Owner.this_process().mark}-{secrets.token_hex(6)}-{readable(settings.task_id) or '_'}"
        with overlay(client, settings, image) as layer:
            current_start().report("starting an instance")
            try:
                result = client.run("--quiet", "instance", "start", *options, *layer, image, name)
                found = records(client, name) if result.ok else []
                if not found:
                    raise start_error(settings, image, result)
                refuse_ignored_binds(settings, result.text)
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
        """The engine's name of the instance."""
        return self.record.name

    def is_running(self, machine: Machine) -> bool:
        """Return True if the first process exists and is not exiting."""
        if not self.processes:
            return False
        return bool(machine.run_script(_RUNNING, str(self.record.pid), self.processes[0]))

    def open_stream(self, client: Client, argv: Sequence[str], terminal: Terminal | None) -> Stream:
        """Start a process in the instance. The stream ends at once after the instance's end."""
        # `--silent` suppresses warnings in the process's output. `--pwd` keeps the engine from looking for our own
        # directory in the container, and from complaining.
        options = ["--silent", "exec", "--cleanenv", "--pwd", "/", f"instance://{self.name}"]
        command = [client.program, *options, "/bin/sh", "-c", _AT_HOME, "sh", *argv]
        return client.machine.open_stream(command, terminal, _CHECK, str(self.record.pid), self.processes[0])

    def memory_kills(self, machine: Machine) -> int:
        """Return the number of processes killed by the kernel for lack of memory; 0 without limits."""
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
        """End all processes of the instance, and wait until the engine has freed its resources.

        Raises:
            TerminalError: The processes did not end.
        """
        processes = self.processes or ("", "", "")
        if not client.machine.run_script(_END, str(self.record.pid), *processes, *map(str, self.record.logs)):
            raise TerminalError(
                f"backend 'singularity': a process of instance {self.name} did not end within {_INIT_LIMIT} s of KILL"
            )
        if records(client, self.name):
            raise TerminalError(f"backend 'singularity': instance {self.name} is still listed after its end")
