"""Options of `instance start` from settings, the writable layer, and errors for limits the engine cannot enforce."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import PurePosixPath

from environments.errors import EnvironmentStartError, SettingsError, TerminalError, UnsupportedError
from environments.legacy import UnenforcedLimitsError
from environments.settings import EnvironmentSettings
from environments.singularity.client import Client, ProgramResult
from environments.singularity.machine import Machine
from environments.singularity.settings import SingularitySettings
from environments.starting import unstoppable

CONTAINED = ("--containall", "--no-home", "--cleanenv")
"""The container sees no file, process or variable of its machine except through settings."""
LIMITS = {"container_cpu": "--cpus", "container_memory": "--memory", "container_pids": "--pids-limit"}
_CGROUPS = PurePosixPath("/sys/fs/cgroup")
_UNIFIED = {"container_cpu": "cpu.max", "container_memory": "memory.max", "container_pids": "pids.max"}
_GPU_DRIVER = "/proc/driver/nvidia/version"
SMALLEST_DISK = 64
"""MB below which the engine creates no file system."""
MEGABYTE = 1024 * 1024
ABOUT = "about.json"
"""The file beside kept files, with their `task`, their `image`, and `created` in seconds since the epoch."""


def limits(settings: EnvironmentSettings) -> dict[str, str]:
    """Return the limits that are set, by setting, in the engine's notation."""
    units = {"container_memory": "m"}
    return {name: f"{value}{units.get(name, '')}" for name in LIMITS if (value := getattr(settings, name))}


def start_options(settings: EnvironmentSettings, machine: Machine) -> list[str]:
    """Return the options for the settings, except those of the writable layer.

    Args:
        settings: All settings.
        machine: The machine of the engine.

    Raises:
        SettingsError: The source of a mount does not exist.
        UnsupportedError: The machine has no GPU driver.
    """
    own = SingularitySettings.of(settings)
    options = [*CONTAINED]
    for name, value in limits(settings).items():
        options += [LIMITS[name], value]
    *sources, (_, driver) = machine.resolve_paths(*(bind.partition(":")[0] for bind in own.binds), _GPU_DRIVER)
    for bind, (path, kind) in zip(own.binds, sources, strict=True):
        if not kind:
            raise SettingsError(f"backend 'singularity': binds: {bind!r}: there is no {path}{machine.where or ' here'}")
        options += ["--bind", f"{path}:{bind.partition(':')[2]}"]
    if own.network != "full":
        options += ["--net", "--network", "none"]
    if own.gpu:
        if not driver:  # the engine would only warn, and start without GPUs
            raise UnsupportedError(
                f"backend 'singularity' cannot provide gpu: no NVIDIA driver is loaded on "
                f"{machine.place or 'this machine'}; install it, or leave gpu off"
            )
        options.append("--nv")
    return options


def start_error(settings: EnvironmentSettings, image: str, result: ProgramResult) -> TerminalError:
    """Return the error for a failed start; names the setting that the engine does not support, if there is one."""
    low = result.text.lower()
    asked = list(limits(settings))

    def line(*words: str) -> str:
        lines = result.text.splitlines()
        return next(line for line in lines if any(word in line.lower() for word in words)).strip()

    def unenforced(names: list[str], why: str) -> UnenforcedLimitsError:
        message = f"backend 'singularity' cannot do {', '.join(names)} here: {why}. Leave {' and '.join(names)} unset"
        return UnenforcedLimitsError(message, names, why)

    flags = {**LIMITS, "network": "--net", "gpu": "--nv"}
    if "unknown flag" in low and (names := [name for name, flag in flags.items() if flag in low]):
        return unenforced(names, "this version of the engine lacks the option")
    if "cpus value" in low:
        return unenforced(["container_cpu"], line("cpus value").removeprefix("FATAL:").strip())
    if asked and "cgroup" in low:
        return unenforced(
            asked, f"the engine needs root here, or cgroups v2 with systemd, and reports: {line('cgroup')}"
        )
    if settings.container_disk and ("loop device" in low or "fuse" in low):
        why = "the engine cannot mount a file system of fixed size"
        return unenforced(["container_disk"], f"{why}: {line('loop device', 'fuse')}")
    if SingularitySettings.of(settings).network != "full" and "network" in low:
        return unenforced(["network"], line("network"))
    return EnvironmentStartError(f"backend 'singularity' cannot start {image}: {result.reason}{result.hint}")


def refuse_ignored_binds(settings: EnvironmentSettings, text: str) -> None:
    """Check the output of a successful start.

    Raises:
        UnsupportedError: The engine ignored the mounts, with only a warning.
    """
    if SingularitySettings.of(settings).binds and "user bind control" in text.lower():
        raise UnsupportedError(
            "backend 'singularity' cannot do binds here: the engine's administrator has switched "
            "`user bind control` off. Leave binds unset"
        )


def refuse_limits_without_effect(settings: EnvironmentSettings, cgroups: str, machine: Machine) -> None:
    """Check that the limits of an instance are in force.

    Under cgroups v2, a limit of a controller that is not delegated to the user is accepted and has no effect.

    Args:
        settings: All settings.
        cgroups: Text of /proc/PID/cgroup of the instance's first process.
        machine: The machine of the engine.

    Raises:
        UnsupportedError: A limit is not in force.
    """
    asked = list(limits(settings))
    unified = next((line.removeprefix("0::/") for line in cgroups.splitlines() if line.startswith("0::/")), None)
    if not asked or unified is None:
        return
    folder = _CGROUPS / unified
    if not all(kind for _, kind in machine.resolve_paths(str(_CGROUPS / "cgroup.controllers"), str(folder))):
        return
    for name, value in zip(asked, machine.read_all(*(folder / _UNIFIED[name] for name in asked)), strict=True):
        if not value or value.startswith("max"):
            why = "the cgroup controller for it is not delegated to this user"
            raise UnenforcedLimitsError(
                f"backend 'singularity' cannot enforce {name} here: {why}; have systemd delegate it, or leave {name} "
                "unset",
                [name],
                why,
            )


# The writable layer: in memory, in a file of fixed size, or in a directory or file that outlives the instance.


@contextlib.contextmanager
def overlay(client: Client, settings: EnvironmentSettings, image: str) -> Iterator[list[str]]:
    """Prepare the writable layer of an instance, and yield its options. A started instance keeps the files open.

    Args:
        client: Creates file systems.
        settings: All settings.
        image: The path of the image below the layer. Kept files fit this image only.

    Raises:
        SettingsError: The settings contradict each other, or kept files.
        UnsupportedError: The machine cannot enforce a disk limit.
    """
    if SingularitySettings.of(settings).read_only:
        if settings.container_persistent or settings.container_disk:
            raise SettingsError(
                "backend 'singularity': read_only leaves nothing to keep or to limit; unset it, or "
                "container_persistent and container_disk"
            )
        yield []
    elif settings.container_persistent:
        yield _mounted(_kept(client, settings, image))
    elif settings.container_disk:
        folder = client.machine.make_temporary_folder()
        try:
            yield _mounted(_file_system(client, settings.container_disk, folder / "overlay.img"))
        finally:
            with unstoppable():
                client.machine.remove(folder)
    else:
        yield ["--writable-tmpfs"]


def _mounted(path: PurePosixPath) -> list[str]:
    # `--no-mount tmp` leaves /tmp to the overlay. Else /tmp is a file system of its own, neither kept nor limited.
    return ["--overlay", str(path), "--no-mount", "tmp"]


def _kept(client: Client, settings: EnvironmentSettings, image: str) -> PurePosixPath:
    machine, disk = client.machine, settings.container_disk
    place = kept_folder(machine) / kept_key(settings, image)
    machine.make_folder(place)
    (folder, has_folder), (file, has_file) = machine.resolve_paths(str(place / "overlay"), str(place / "overlay.img"))
    if has_folder and "container_disk" in settings.default_limits:
        raise _no_limit(f"{place} was made without")
    if has_folder if disk else has_file:
        raise SettingsError(
            f"container_disk was {'not ' if disk else ''}set when the kept files of task {settings.task_id!r} were "
            f"made; set it as it was, or remove {place}"
        )
    if not (has_folder or has_file):
        about = {"task": settings.task_id, "image": image, "created": time.time()}
        machine.write(place / ABOUT, json.dumps(about) + "\n")
    if not disk:
        machine.make_folder(folder)
        return folder
    if not has_file:
        machine.rename(_file_system(client, disk, place / "new.img"), file)
    elif (size := machine.size(file)) != disk * MEGABYTE:
        raise SettingsError(
            f"container_disk is {disk} MB, and the kept files of task {settings.task_id!r} have a file system of "
            f"{size // MEGABYTE} MB; set it to that, or remove {place}"
        )
    return file


def _file_system(client: Client, disk: int, path: PurePosixPath) -> PurePosixPath:
    if disk < SMALLEST_DISK:
        raise UnenforcedLimitsError(
            f"backend 'singularity' cannot enforce a container_disk below {SMALLEST_DISK} MB; set it to that"
        )
    client.machine.remove(path)
    result = client.run("--quiet", "overlay", "create", "--sparse", "--size", str(disk), str(path))
    if not result.ok:
        raise _no_limit(f"{result.reason}. Install e2fsprogs, the program for file systems")
    return path


def _no_limit(why: str) -> UnenforcedLimitsError:
    message = f"backend 'singularity' cannot enforce container_disk here: {why}, or leave container_disk unset"
    return UnenforcedLimitsError(message, ["container_disk"], why)


def kept_folder(machine: Machine) -> PurePosixPath:
    """Return the directory of all kept files of a machine; may be missing."""
    return machine.folder / "kept"


def kept_key(settings: EnvironmentSettings, image: str) -> str:
    """Return the name of a task's kept files on an image."""
    return hashlib.sha256(f"{settings.task_id}\0{image}".encode()).hexdigest()[:24]
