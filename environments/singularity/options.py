"""From settings to the options of `instance start`, and refusing what the engine says that it cannot do."""

from __future__ import annotations

from pathlib import PurePosixPath

from environments.errors import SettingsError, UnsupportedError
from environments.settings import EnvironmentSettings
from environments.shell.memory import kills
from environments.singularity.machine import Machine
from environments.singularity.settings import SingularitySettings
from environments.singularity.this_machine import THIS_MACHINE
from environments.sources import UnheldLimitsError

CONTAINED = ("--containall", "--no-home", "--cleanenv")
"""Of the machine's files, processes and variables the container sees only what a setting gives it."""
LIMITS = {"container_cpu": "--cpus", "container_memory": "--memory", "container_pids": "--pids-limit"}
_CGROUPS = PurePosixPath("/sys/fs/cgroup")
_UNIFIED = {"container_cpu": "cpu.max", "container_memory": "memory.max", "container_pids": "pids.max"}
_GPU_DRIVER = PurePosixPath("/proc/driver/nvidia/version")


def limits(settings: EnvironmentSettings) -> dict[str, str]:
    """Return the limits that are set, by the name of the setting, in the engine's words."""
    units = {"container_memory": "m"}
    return {name: f"{value}{units.get(name, '')}" for name in LIMITS if (value := getattr(settings, name))}


def start_options(settings: EnvironmentSettings, machine: Machine = THIS_MACHINE) -> list[str]:
    """Return the options that settings ask for, without those of the writable layer.

    Args:
        settings: What is asked for.
        machine: Where the engine is.

    Raises:
        SettingsError: A mount names what is not there.
        UnsupportedError: There is no GPU driver on that machine.
    """
    own = SingularitySettings.of(settings)
    options = [*CONTAINED]
    for name, value in limits(settings).items():
        options += [LIMITS[name], value]
    for bind in own.binds:
        options += ["--bind", _with_source_there(bind, machine)]
    if own.network != "full":
        options += ["--net", "--network", "none"]
    if own.gpu:
        if not machine.kind(_GPU_DRIVER):  # the engine would only warn, and go on without
            raise UnsupportedError(
                f"backend 'singularity' cannot provide singularity_gpu: no NVIDIA driver is loaded on "
                f"{machine.place or 'this machine'}; install it, or leave singularity_gpu off"
            )
        options.append("--nv")
    return options


def _with_source_there(bind: str, machine: Machine) -> str:
    parts = bind.split(":")
    source = machine.absolute(parts[0])
    if not machine.kind(source):
        where = f"on {machine.place}" if machine.place else "here"
        raise SettingsError(f"singularity_binds: {bind!r}: there is no {source} {where}")
    return ":".join([str(source), *parts[1:]])


def refusal(settings: EnvironmentSettings, text: str) -> UnsupportedError | None:
    """Tell from what the engine printed of a start that failed which setting it cannot do here; None if none."""
    low = text.lower()
    asked = list(limits(settings))
    names: list[str] = []
    why = ""
    if "unknown flag" in low:
        flags = {**LIMITS, "singularity_network": "--net", "singularity_gpu": "--nv"}
        names = [name for name, flag in flags.items() if flag in low]
        why = "this version of the engine lacks the option"
    elif "cpus value" in low:
        names = ["container_cpu"]
        why = _line_with(text, "cpus value").removeprefix("FATAL:").strip()
    elif asked and "cgroup" in low:
        names = asked
        why = "the engine needs root here, or cgroups v2 with systemd, and reports: " + _line_with(text, "cgroup")
    elif settings.container_disk and ("loop device" in low or "fuse" in low):
        names = ["container_disk"]
        why = "the engine cannot mount a file system of fixed size: " + _line_with(text, "loop device", "fuse")
    elif SingularitySettings.of(settings).network != "full" and "network" in low:
        names = ["singularity_network"]
        why = _line_with(text, "network")
    if not names:
        return None
    message = f"backend 'singularity' cannot do {', '.join(names)} here: {why}. Leave {' and '.join(names)} unset"
    return UnheldLimitsError(message, names, why)


def _line_with(text: str, *words: str) -> str:
    return next((line for line in text.splitlines() if any(word in line.lower() for word in words)), text).strip()


def refuse_ignored_binds(settings: EnvironmentSettings, text: str) -> None:
    """Check what the engine printed of a start that went well.

    Raises:
        UnsupportedError: It has left out the mounts, of which it only warns.
    """
    if SingularitySettings.of(settings).binds and "user bind control" in text.lower():
        raise UnsupportedError(
            "backend 'singularity' cannot do singularity_binds here: the engine's administrator has switched "
            "`user bind control` off. Leave singularity_binds unset"
        )


def memory_kills(pid: int, machine: Machine = THIS_MACHINE) -> int:
    """Return how many processes of the cgroup of a process the kernel has ended for want of memory."""
    for line in _cgroups(pid, machine):
        _, controllers, path = line.split(":", 2)
        unified = controllers == ""
        if not unified and "memory" not in controllers.split(","):
            continue
        place = _CGROUPS / ("" if unified else "memory") / path.lstrip("/")
        if events := machine.read(place / ("memory.events" if unified else "memory.oom_control")):
            return kills(events)
    return 0


def _cgroups(pid: int, machine: Machine) -> list[str]:
    """Return what /proc says of the cgroups of a process; nothing once it has ended."""
    return machine.read(PurePosixPath(f"/proc/{pid}/cgroup")).splitlines()


def refuse_limits_without_effect(settings: EnvironmentSettings, pid: int, machine: Machine = THIS_MACHINE) -> None:
    """Check the limits of a process that runs under them.

    Under cgroups v2 a limit of a controller that was not delegated to the user is accepted, and has no effect.

    Raises:
        UnsupportedError: A limit is not in force.
    """
    asked = limits(settings)
    unified = next((line.removeprefix("0::/") for line in _cgroups(pid, machine) if line.startswith("0::/")), None)
    if not asked or unified is None:
        return
    folder = _CGROUPS / unified.strip()
    if not machine.kind(_CGROUPS / "cgroup.controllers") or machine.kind(folder) != "directory":
        return
    for name in asked:
        found = machine.read(folder / _UNIFIED[name])
        if not found or found.startswith("max"):
            why = "the cgroup controller for it is not delegated to this user"
            raise UnheldLimitsError(
                f"backend 'singularity' cannot enforce {name} here: {why}; have systemd delegate it, or leave {name} "
                "unset",
                [name],
                why,
            )
