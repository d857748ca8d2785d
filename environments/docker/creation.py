"""Creation of a container: settings to a request, and the parts of a request that the engine cannot follow."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from docker.types import Mount

from environments.docker.engine import UNIX, reason
from environments.docker.flags import FLAGS, apply_flags, parse_gpus, parsed_flags
from environments.docker.settings import PATH_BEGINS, DockerSettings, check_volume
from environments.docker.target import labels, remove
from environments.errors import EnvironmentStartError, SettingsError, TerminalError, UnsupportedError
from environments.legacy import UnenforcedLimitsError, without_unenforced_limits
from environments.settings import EnvironmentSettings
from environments.starting import current_start, unstoppable
from environments.validation import closest

if TYPE_CHECKING:
    from docker import APIClient

    from environments.docker.client import BreakableClient


DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_PIDS = 256
"""Enough for a parallel build; a fork bomb ends there."""
DEFAULT_MEMORY = 4096
"""MB: enough for a large build. On a smaller machine, its own memory is the limit."""
MB = 2**20
DEFAULT_TMP = 2048
"""MB of /tmp in a container without a memory limit."""
WORKSPACE = "/workspace"
TMP = "/tmp"  # noqa: S108 - a path in the container
TMP_OPTIONS = "rw,exec,nosuid,nodev,mode=1777"
"""Scripts are staged and builds run in /tmp: they need `exec`, which Docker omits by default."""
KEPT_CAPABILITIES = (
    "CHOWN",  # root in the container installs packages, whose files have other owners,
    "DAC_OVERRIDE",  # reads and writes mounted files of other users,
    "FOWNER",  # sets the mode and times of such files,
    "FSETID",  # and keeps their set-group-id bit.
    "KILL",  # It ends processes that have changed their user.
    "SETGID",  # Package managers and servers change
    "SETUID",  # to a user with fewer rights.
)
"""The capabilities kept of Docker's default fourteen. Dropped are, among others, MKNOD, NET_RAW and SYS_CHROOT."""
_ACCESS = {"rw": False, "ro": True}
_PROPAGATION = ("shared", "slave", "private", "rshared", "rslave", "rprivate")
_NO_SOURCE = re.compile(r"bind source path does not exist: (.+)|statfs (.+): no such file", re.IGNORECASE)
"""Errors of Docker and Podman for a mount with a missing source."""
LIMITS = {
    "container_cpu": ("NanoCpus",),
    "container_memory": ("Memory", "MemorySwap"),
    "container_pids": ("PidsLimit",),
    "container_disk": ("StorageOpt",),
}
"""The engine's names for limits."""
_DROPPABLE = (
    *("Memory", "NanoCpus", "PidsLimit", "domainname"),
    *("BlkioDeviceReadBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteBps", "BlkioDeviceWriteIOps", "BlkioWeight"),
    *("BlkioWeightDevice", "CpuPeriod", "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime", "CpuShares"),
    *("CpusetCpus", "CpusetMems", "DeviceCgroupRules", "DeviceRequests", "Isolation", "VolumeDriver"),
    *("MemoryReservation", "MemorySwappiness", "OomKillDisable", "PublishAllPorts", "Ulimits"),
)
"""Entries that an engine may drop silently, such as a rootless Podman on cgroups v1. The container's description has
only the entries that are enforced."""
_enforced: dict[str, frozenset[str]] = {}
"""Entries seen to be enforced, by the engine's address. Each is checked once."""
_IDLE_PROGRAM = ["/bin/sh"]
"""The program of a container: a shell with an open, silent input. Every image has /bin/sh."""


@dataclass(slots=True)
class ContainerOptions:
    """A request to the engine for a container."""

    image: str
    host: dict[str, Any] = field(default_factory=dict)
    """Entries of `HostConfig`, under the engine's names."""
    config: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of docker-py's `create_container`."""
    endpoint: dict[str, Any] = field(default_factory=dict)
    """Addresses and aliases in the network, under the engine's names."""
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables for every process that we start. They are no part of the container: its description lies on disk, and
    every user of the engine can read it."""
    engine: str = ""
    """Address of an engine on another machine; else empty."""
    unenforced: frozenset[str] = frozenset()
    """Names of default limits that the engine cannot enforce."""

    def fingerprint(self, image_id: str) -> str:
        """Return a text that differs when the image, the mounts, the limits or other options of the container differ.

        Args:
            image_id: The id of the image; its name may be moved to another image.
        """
        wanted = json.dumps([image_id, self.host, self.config, self.engine, self.endpoint], sort_keys=True)
        return hashlib.sha256(wanted.encode()).hexdigest()[:24]


def container_options(settings: EnvironmentSettings) -> ContainerOptions:
    """Turn settings into options.

    Raises:
        SettingsError: A setting or a flag of `extra_args` has a wrong value, or contradicts another setting.
        UnsupportedError: `extra_args` has an unsupported flag.
    """
    own = DockerSettings.of(settings)
    options = ContainerOptions(own.image or DEFAULT_IMAGE, environment=dict(own.target_variables()))
    options.host = {
        "Init": True,
        "CapDrop": ["ALL"],
        "CapAdd": list(KEPT_CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "NetworkMode": "default" if own.network == "full" else "none",
        "Binds": list(own.volumes),
        "Mounts": [],
        "Tmpfs": {},
    }
    _set_limits(options.host, settings, own.gpus)
    if own.run_as_host_user:
        options.config["user"] = f"{os.getuid()}:{os.getgid()}"
    elif own.user:
        options.config["user"] = own.user
    if own.mount_cwd_to_workspace:
        options.host["Binds"].append(f"{Path.cwd()}:{WORKSPACE}")
        options.config["working_dir"] = WORKSPACE
    apply_flags(own, options)
    _set_mounts(options.host, settings)
    if TMP not in {*_targets(options.host)}:
        size = _tmp_size(settings, own)
        options.host["Tmpfs"][TMP] = f"{TMP_OPTIONS},size={size}m" if size else TMP_OPTIONS
    return options


def memory_limit(settings: EnvironmentSettings) -> int:
    """Return the memory limit of a container in MB; 0 is no limit."""
    return DEFAULT_MEMORY if settings.container_memory is None else settings.container_memory


def _set_limits(host: dict[str, Any], settings: EnvironmentSettings, gpus: str | None) -> None:
    if settings.container_cpu:
        host["NanoCpus"] = int(settings.container_cpu * 1e9)
    if memory := memory_limit(settings):
        # Equal limits leave no swap: a process beyond its memory is killed, and does not slow the machine down.
        host["Memory"] = host["MemorySwap"] = memory * MB
    if pids := DEFAULT_PIDS if settings.container_pids is None else settings.container_pids:
        host["PidsLimit"] = pids
    if settings.container_disk:
        host["StorageOpt"] = {"size": f"{settings.container_disk}m"}
    if gpus:
        try:
            host["DeviceRequests"] = parse_gpus(gpus)
        except ValueError as error:
            raise SettingsError(f"backend 'docker': gpus: {error}") from None


def _set_mounts(host: dict[str, Any], settings: EnvironmentSettings) -> None:
    """Turn volumes that are paths into mounts (`Mounts`); the others stay `Binds`.

    The engine creates a missing source of a bind: an empty directory of root's. A missing source of a mount is refused,
    on any machine. So paths become mounts. Only binds have named volumes that are created on first use, and the labels
    of SELinux (`z`, `Z`).

    Raises:
        SettingsError: A volume has another form, or a path of another machine is not absolute.
    """
    volumes, host["Binds"] = host["Binds"], []
    for volume in volumes:
        check_volume(volume)
        source, target, *access = volume.split(":")
        if source.startswith(PATH_BEGINS):
            if settings.over is not None and not source.startswith("/"):  # `~` and `.` there are unknown here
                raise SettingsError(
                    f"backend 'docker': volumes: {volume!r} is of the machine that the engine is on; write its "
                    "absolute path there"
                )
            source = str(Path(source).expanduser().absolute())
            if mount := _mount(source, target, access[0].split(",") if access else ()):
                host["Mounts"].append(mount)
                continue
        host["Binds"].append(":".join([source, target, *access]))


def _mount(source: str, target: str, options: Sequence[str]) -> Mount | None:
    """Return a mount of a path; None if an option exists only for binds."""
    read_only, propagation = False, None
    for option in options:
        if option in _ACCESS:
            read_only = _ACCESS[option]
        elif option in _PROPAGATION:
            propagation = option
        else:
            return None
    return Mount(target, source, type="bind", read_only=read_only, propagation=propagation)


def _targets(host: Mapping[str, Any]) -> Iterator[str]:
    yield from (mount["Target"].rstrip("/") for mount in host["Mounts"])
    yield from (bind.split(":")[1].rstrip("/") for bind in host["Binds"])
    yield from host["Tmpfs"]


def _tmp_size(settings: EnvironmentSettings, own: DockerSettings) -> int:
    """Return the limit of /tmp in MB; 0 is no limit: the kernel's default is then half of the machine's memory."""
    if own.tmp_size is not None:
        return own.tmp_size
    memory = memory_limit(settings)
    return max(1, memory // 2) if memory else DEFAULT_TMP


def start_container(
    api: BreakableClient, settings: EnvironmentSettings, options: ContainerOptions, image: str
) -> tuple[str, EnvironmentSettings]:
    """Create and start a container.

    Args:
        api: The engine.
        settings: The settings.
        options: The request. Default limits that the engine cannot enforce are noted in `unenforced`.
        image: The id of the image. Its name is enough for a container that is not kept.

    Returns:
        The container's id, and the settings without those limits.

    Raises:
        EnvironmentStartError: The source of a mount is missing.
        UnsupportedError: The engine does not support a setting.
        docker.errors.APIError: The engine refused for another reason.
    """
    try:
        container = create_container(api, settings, options, image)
    except UnenforcedLimitsError as error:
        settings = without_unenforced_limits(settings, error)
        options.unenforced |= error.names
        container = create_container(api, settings, options, image)
    try:
        api.start(container)
    except Exception as error:
        with unstoppable():
            remove(api, container)
        gpus = DockerSettings.of(settings).gpus
        if gpus and isinstance(error, APIError) and "device driver" in reason(error):
            raise UnsupportedError(_unsupported(api, "gpus", reason(error))) from error
        raise
    return container, settings


def create_container(api: BreakableClient, settings: EnvironmentSettings, options: ContainerOptions, image: str) -> str:
    """Create a container without starting it, and return its id. Arguments and errors as in `start_container`."""
    if settings.container_disk and _ignores_disk_limits(api):
        raise _no_disk_limit(api, "containerd's image store has no such limit")
    unenforced = {key for limit in options.unenforced for key in LIMITS[limit]}
    host = {key: value for key, value in options.host.items() if key not in unenforced}
    own = labels(settings.task_id, options.fingerprint(image), kept=settings.container_persistent)
    config = {**options.config, "labels": {**options.config.get("labels", {}), **own}}
    if options.endpoint:
        config["networking_config"] = {"EndpointsConfig": {host["NetworkMode"]: options.endpoint}}
    name = f"hermes-{secrets.token_hex(6)}"

    def create() -> Mapping[str, Any]:
        made: Mapping[str, Any] = api.create_container(
            options.image,
            _IDLE_PROGRAM,
            entrypoint=[],
            stdin_open=True,
            detach=True,  # the input stays open after the first client has detached
            name=name,
            host_config=host,
            **config,
        )
        return made

    try:
        made = current_start().run_detachable(create, undo=partial(_remove_late, api, name))
    except APIError as error:
        if refusal := _refusal(reason(error), api, settings):
            raise refusal from error
        raise
    container = str(made["Id"])
    for warning in made.get("Warnings") or []:
        if "discarded" in warning:  # the engine's word for a limit that it does not enforce
            api.remove_container(container, force=True)
            why = f"{warning}; set it to 0 to do without"
            raise UnsupportedError(_unsupported(api, "a limit of container_* or extra_args", why))
    wanted = {**host, "domainname": config.get("domainname")}
    asked = frozenset(name for name in _DROPPABLE if wanted.get(name))
    enforced = _enforced.get(api.engine, frozenset())
    if not asked <= enforced:
        about = api.inspect_container(container)
        shown = {**about["HostConfig"], "domainname": about["Config"].get("Domainname")}
        if dropped := {name for name in asked if not shown.get(name)}:
            api.remove_container(container, force=True)
            raise _dropped_error(api, dropped, DockerSettings.of(settings))
        _enforced[api.engine] = enforced | asked
    return container


def _dropped_error(api: BreakableClient, dropped: Collection[str], own: DockerSettings) -> UnsupportedError:
    """Return the error for entries that the engine has dropped."""
    flags = [flag for flag, _ in parsed_flags(own) if FLAGS[flag].keyword in dropped]
    limits = [name for name, keys in LIMITS.items() if keys[0] in dropped]
    if flags or not limits:
        asked = f"{' and '.join(flags)} of extra_args" if flags else "gpus"
        return UnsupportedError(_unsupported(api, asked, "the engine dropped it without an error"))
    why = "the engine dropped them, as it may not use control groups"
    unset = " and ".join(f"{name} (TERMINAL_{name.upper()})" for name in limits)
    words = _unsupported(api, ", ".join(limits), f"{why}; set {unset} to 0 to do without")
    return UnenforcedLimitsError(words, limits, why)


def _refusal(why: str, api: BreakableClient, settings: EnvironmentSettings) -> TerminalError | None:
    """Return the error for a setting that the engine's reason points to; None if there is no such setting."""
    if settings.container_disk and re.search(r"storage.?opt|quota", why, re.IGNORECASE):
        return _no_disk_limit(api, why)
    if missing := _NO_SOURCE.search(why):
        near = _near_source(Path(missing[1] or missing[2])) if api.engine.startswith(UNIX) else ""
        return EnvironmentStartError(
            f"backend 'docker': the source of a mount does not exist on the engine's machine: {why}{near}; create it "
            "there, or correct volumes"
        )
    return None


def _near_source(missing: Path) -> str:
    """Return ` (did you mean '...'?)` if a path beside the missing path has a similar name, else ''."""
    try:
        return closest(missing.name, [found.name for found in missing.parent.iterdir()])
    except OSError:
        return ""


def _remove_late(api: APIClient, name: str) -> None:
    """Remove a container that was created after the start was stopped."""
    with contextlib.closing(api):  # the client may be out of use
        remove(api, name)


def _no_disk_limit(api: BreakableClient, why: str) -> UnenforcedLimitsError:
    return UnenforcedLimitsError(_unsupported(api, "container_disk", why), ["container_disk"], why)


def _unsupported(api: BreakableClient, setting: str, why: str) -> str:
    return f"backend 'docker' cannot do what {setting} asks for with the engine at {api.engine}: {why}"


def _ignores_disk_limits(api: APIClient) -> bool:
    """Return True if the engine accepts a disk limit and does not enforce it."""
    status = dict(api.info().get("DriverStatus") or [])
    return "containerd.snapshotter" in status.get("driver-type", "")
