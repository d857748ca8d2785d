"""From settings to a container: what the engine is asked for, and what it cannot do of it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker.errors import APIError

from environments.docker.engine import UNIX, reason
from environments.docker.flags import apply_flags, flags_of, parse_gpus
from environments.docker.labels import labels
from environments.docker.settings import PATH_BEGINS, DockerSettings, check_volume
from environments.docker.target import remove
from environments.errors import EnvironmentStartError, SettingsError, TerminalError, UnsupportedError
from environments.legacy import UnheldLimitsError, going_without
from environments.settings import EnvironmentSettings
from environments.starting import current_start, unstoppable
from environments.validation import closest

if TYPE_CHECKING:
    from docker import APIClient
    from docker.types import Mount

    from environments.docker.client import BreakableClient


DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_PIDS = 256
"""Enough for a parallel build, and an end to a fork bomb."""
DEFAULT_MEMORY = 4096
"""MB: enough for a large build. Where the machine has less, its own memory is the limit."""
DEFAULT_TMP = 2048
"""MB of /tmp in a container without a limit of its memory."""
WORKSPACE = "/workspace"
TMP = "/tmp"  # noqa: S108 - a path in the container
TMP_OPTIONS = "rw,exec,nosuid,nodev,mode=1777"
"""Scripts are staged there and builds run there, so that `exec`, which Docker leaves out by default, is needed."""
KEPT_CAPABILITIES = (
    "CHOWN",  # root in the container installs packages, whose files have other owners,
    "DAC_OVERRIDE",  # reads and writes mounted files of other users,
    "FOWNER",  # sets the mode and times of such files,
    "FSETID",  # and keeps their set-group-id bit.
    "KILL",  # It ends processes that have changed their user.
    "SETGID",  # Package managers and servers change
    "SETUID",  # to a user with fewer rights.
)
"""The capabilities kept of Docker's default fourteen. Left out are, among others, MKNOD, NET_RAW and SYS_CHROOT."""
_ACCESS = {"rw": False, "ro": True}
_PROPAGATION = ("shared", "slave", "private", "rshared", "rslave", "rprivate")
_NO_SOURCE = re.compile(r"bind source path does not exist: (.+)|statfs (.+): no such file", re.IGNORECASE)
"""The errors of Docker and Podman for a mount whose source is missing."""
_LIMITS = {"container_memory": "Memory", "container_cpu": "NanoCpus", "container_pids": "PidsLimit"}
_OF_FLAGS = (
    *("BlkioDeviceReadBps", "BlkioDeviceReadIOps", "BlkioDeviceWriteBps", "BlkioDeviceWriteIOps", "BlkioWeight"),
    *("BlkioWeightDevice", "CpuPeriod", "CpuQuota", "CpuRealtimePeriod", "CpuRealtimeRuntime", "CpuShares"),
    *("CpusetCpus", "CpusetMems", "DeviceCgroupRules", "DeviceRequests", "Domainname", "Isolation", "VolumeDriver"),
    *("MemoryReservation", "MemorySwappiness", "OomKillDisable", "PublishAllPorts", "Ulimits"),
)
_SHOWN = {**_LIMITS, **{name: name for name in _OF_FLAGS}}
"""Entries that an engine, such as a rootless Podman on cgroups v1, may leave out without a word, by the engine's names.
The description of a container has those that it holds."""
_held: dict[str, frozenset[str]] = {}
"""Those of `_SHOWN` that engines were seen to hold, by address, so that each is looked for once."""
_OPTIONS = {
    "container_disk": ["storage_opt"],
    "container_memory": ["mem_limit", "memswap_limit"],
    "container_cpu": ["nano_cpus"],
    "container_pids": ["pids_limit"],
}
"""docker-py's names for limits."""
_WAITS = ["/bin/sh"]
"""The program of a container: a shell whose input stays open and brings nothing. Every image has one."""


@dataclass(slots=True)
class ContainerOptions:
    """A request to the engine for a container."""

    image: str
    host: dict[str, object] = field(default_factory=dict)
    """Keyword arguments of docker-py's `create_host_config`."""
    config: dict[str, object] = field(default_factory=dict)
    """Keyword arguments of docker-py's `create_container`."""
    api: dict[str, object] = field(default_factory=dict)
    """Further entries of the engine's `HostConfig`, under the engine's names."""
    endpoint: dict[str, object] = field(default_factory=dict)
    """Its addresses and aliases in its network, under the engine's names."""
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables for every process that we start. They are no part of the container, whose description anybody who may
    use the engine can read, and which lies on its disk."""
    engine: str = ""
    """The address of its engine, where that is on another machine."""

    def fingerprint(self, image_id: str) -> str:
        """Return a text that differs when the image, the mounts, the limits or other options of the container differ.

        Args:
            image_id: The id of the image, as its name may come to mean another one.
        """
        more = [each for each in (self.engine, self.api, self.endpoint) if each]
        wanted = json.dumps([image_id, self.host, self.config, *more], sort_keys=True, default=str)
        return hashlib.sha256(wanted.encode()).hexdigest()[:24]


def container_options(settings: EnvironmentSettings) -> ContainerOptions:
    """Turn settings into options.

    Raises:
        SettingsError: `extra_args` has a wrong value, or contradicts another setting.
        UnsupportedError: `extra_args` has a flag that this backend does not have.
    """
    own = DockerSettings.of(settings)
    options = ContainerOptions(own.image or DEFAULT_IMAGE)
    options.host = {
        "init": True,
        "cap_drop": ["ALL"],
        "cap_add": list(KEPT_CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "volumes": list(own.volumes),
        "mounts": [],
        "tmpfs": {},
    }
    if own.network != "full":
        options.host["network_mode"] = "none"
    _set_limits(options, settings, own.gpus)
    _set_user(options, own)
    if own.mount_cwd_to_workspace:
        workspace = f"{Path.cwd()}:{WORKSPACE}"
        check_volume("backend 'docker': mount_cwd_to_workspace", workspace)
        options.host["volumes"] = [*own.volumes, workspace]
        options.config["working_dir"] = WORKSPACE
    options.environment = dict(own.target_variables())
    apply_flags(own, options)
    _set_mounts(options, settings, own)
    return options


def memory_limit(settings: EnvironmentSettings) -> int:
    """Return the limit of a container's memory in MB; 0 is none."""
    return DEFAULT_MEMORY if settings.container_memory is None else settings.container_memory


def pids_limit(settings: EnvironmentSettings) -> int:
    """Return the limit of a container's processes and threads; 0 is none."""
    return DEFAULT_PIDS if settings.container_pids is None else settings.container_pids


def _set_mounts(options: ContainerOptions, settings: EnvironmentSettings, own: DockerSettings) -> None:
    """Turn volumes, which `check_volume` has let pass, into mounts of the two forms that the engine takes.

    The engine makes what a mount of the older form names and is not there: an empty directory of root's. It refuses a
    mount of the newer form then, wherever the engine is, so that this form is taken for paths. Only the older one has
    named volumes that are made on first use, and the labels of SELinux (`z`, `Z`).

    Raises:
        SettingsError: A path of another machine is not absolute.
    """
    volumes, paths, tmpfs = options.host.pop("volumes"), options.host["mounts"], options.host["tmpfs"]
    assert isinstance(volumes, list)
    assert isinstance(paths, list)
    assert isinstance(tmpfs, dict)
    targets = {mount["Target"].rstrip("/") for mount in paths} | set(tmpfs)
    binds: list[str] = []
    for volume in volumes:
        source, target, *access = volume.split(":")
        targets.add(target.rstrip("/"))
        if source.startswith(PATH_BEGINS):
            if settings.over is not None and not source.startswith("/"):  # nothing is known of `~` and `.` there
                raise SettingsError(
                    f"backend 'docker': volumes: {volume!r} is of the machine that the engine is on; write its "
                    "absolute "
                    "path there"
                )
            source = str(Path(source).expanduser().absolute())
            if mount := _mount(source, target, access[0].split(",") if access else ()):
                paths.append(mount)
                continue
        binds.append(":".join([source, target, *access]))
    options.host["binds"] = binds
    if TMP not in targets:
        size = _tmp_size(settings, own)
        tmpfs[TMP] = f"{TMP_OPTIONS},size={size}m" if size else TMP_OPTIONS


def _tmp_size(settings: EnvironmentSettings, own: DockerSettings) -> int:
    """Return the limit of /tmp in MB; 0 is none, where the kernel's is half of the machine's memory."""
    if own.tmp_size is not None:
        return own.tmp_size
    memory = memory_limit(settings)
    return max(1, memory // 2) if memory else DEFAULT_TMP


def _set_limits(options: ContainerOptions, settings: EnvironmentSettings, gpus: str | None) -> None:
    host = options.host
    if settings.container_cpu:
        host["nano_cpus"] = int(settings.container_cpu * 1e9)
    if memory := memory_limit(settings):
        # Equal limits leave no swap: a process that outgrows its memory ends, and does not slow the machine down.
        host["mem_limit"] = host["memswap_limit"] = f"{memory}m"
    if pids := pids_limit(settings):
        host["pids_limit"] = pids
    if settings.container_disk:
        host["storage_opt"] = {"size": f"{settings.container_disk}m"}
    if gpus:
        try:
            host["device_requests"] = parse_gpus([gpus])
        except ValueError as error:
            raise SettingsError(f"backend 'docker': gpus: {error}") from None


def _set_user(options: ContainerOptions, own: DockerSettings) -> None:
    if own.run_as_host_user:
        options.config["user"] = f"{os.getuid()}:{os.getgid()}"
    elif own.user:
        options.config["user"] = own.user


def near_source(missing: str) -> str:
    """Return ` (did you mean '...'?)` if something beside it has a similar name, or nothing.

    Args:
        missing: The path of a directory or file that is not there.
    """
    path = Path(missing)
    try:
        return closest(path.name, [found.name for found in path.parent.iterdir()])
    except OSError:
        return ""


def _mount(source: str, target: str, options: Sequence[str]) -> Mount | None:
    """Return a mount of a path; None if it has an option that only the older form knows."""
    from docker.types import Mount

    read_only, propagation = False, None
    for option in options:
        if option in _ACCESS:
            read_only = _ACCESS[option]
        elif option in _PROPAGATION:
            propagation = option
        else:
            return None
    return Mount(target, source, type="bind", read_only=read_only, propagation=propagation)


class Creation:
    """Makes the containers of one environment.

    Args:
        settings: What was asked for.
        options: What the engine is asked for.
    """

    def __init__(self, settings: EnvironmentSettings, options: ContainerOptions) -> None:
        self.settings = settings
        """The settings, without default limits that the engine cannot hold."""
        self._options = options
        self._host = dict(options.host)

    def started(self, api: BreakableClient, image: str) -> str:
        """Make a container, start it, and return its id.

        Args:
            api: The engine.
            image: The id of the image; its name where that is no matter, as the container is not kept.

        Raises:
            EnvironmentStartError: A mount is not there.
            UnsupportedError: The engine cannot do what a setting asks for.
            docker.errors.APIError: It cannot do it for another reason.
        """
        container = self._create(api, image)
        self._start_new(api, container)
        return container

    def _create(self, api: BreakableClient, image: str) -> str:
        """Create a container, if need be without default limits."""
        try:
            return self.created(api, image)
        except UnheldLimitsError as error:
            self.settings = going_without(self.settings, error)
            for option in itertools.chain.from_iterable(_OPTIONS[name] for name in error.names):
                self._host.pop(option, None)
            return self.created(api, image)

    def created(self, api: BreakableClient, image: str) -> str:
        """Make a container that is not started. Arguments and errors are those of `started`."""
        options = self._options
        if self.settings.container_disk and _ignores_disk_limits(api):
            raise _no_disk_limit(api, "containerd's image store has no such limit")
        kept = self.settings.container_persistent
        config = dict(options.config)
        own = labels(self.settings.task_id, options.fingerprint(image), kept=kept)
        config["labels"] = {**_mapping(config.get("labels")), **own}
        if options.endpoint:
            config["networking_config"] = {
                "EndpointsConfig": {self._host.get("network_mode", "default"): options.endpoint}
            }
        host = api.create_host_config(**self._host) | options.api  # type: ignore[arg-type]
        name = f"hermes-{secrets.token_hex(6)}"

        def create() -> Mapping[str, Any]:
            made: Mapping[str, Any] = api.create_container(
                options.image,
                _WAITS,
                entrypoint=[],
                stdin_open=True,
                detach=True,  # so that its input stays open behind the first that is attached to it
                name=name,
                host_config=host,
                **config,  # type: ignore[arg-type]
            )
            return made

        try:
            made = current_start().alone(create, undo=partial(_remove_late, api, name))
        except APIError as error:
            if refusal := self._refusal(reason(error), api):
                raise refusal from error
            raise
        container = str(made["Id"])
        for warning in made.get("Warnings") or []:
            if "discarded" in warning:  # the engine's word for a limit that it was asked for and will not hold
                api.remove_container(container, force=True)
                why = f"{warning}; set it to 0 to do without"
                raise UnsupportedError(_unsupported(api, "a limit of container_* or extra_args", why))
        wanted = {"Domainname": config.get("domainname"), **host}
        asked = frozenset(name for name, key in _SHOWN.items() if wanted.get(key))
        if not asked <= _held.get(api.engine, frozenset()):
            about = api.inspect_container(container)
            shown = about["Config"] | about["HostConfig"]
            if dropped := sorted(name for name in asked if not shown.get(_SHOWN[name])):
                api.remove_container(container, force=True)
                raise self._not_held(api, dropped)
            _held[api.engine] = _held.get(api.engine, frozenset()) | asked
        return container

    def _not_held(self, api: BreakableClient, names: list[str]) -> UnsupportedError:
        """Return the error for what the engine has left out."""
        left = {_SHOWN[name] for name in names}
        if flags := [flag for flag, key in flags_of(DockerSettings.of(self.settings)) if key in left]:
            asked = f"{' and '.join(flags)} of extra_args"
            return UnsupportedError(_unsupported(api, asked, "it left that out without a word"))
        limits = [name for name in names if name in _LIMITS]
        if not limits:
            return UnsupportedError(_unsupported(api, "gpus", "it left that out without a word"))
        why = "it left them out, as it may not use control groups"
        unset = " and ".join(f"{name} (TERMINAL_{name.upper()})" for name in limits)
        words = _unsupported(api, ", ".join(limits), f"{why}; set {unset} to 0 to do without")
        return UnheldLimitsError(words, limits, why)

    def _refusal(self, why: str, api: BreakableClient) -> TerminalError | None:
        """Tell from the engine's reason which setting it could not follow; None if none."""
        if self.settings.container_disk and re.search(r"storage.?opt|quota", why, re.IGNORECASE):
            return _no_disk_limit(api, why)
        if missing := _NO_SOURCE.search(why):
            near = near_source(missing[1] or missing[2]) if api.engine.startswith(UNIX) else ""
            return EnvironmentStartError(
                f"backend 'docker': a mount names what is not on the engine's machine: {why}{near}; make it there, or "
                "correct volumes"
            )
        return None

    def _start_new(self, api: BreakableClient, container: str) -> None:
        try:
            api.start(container)
        except Exception as error:
            with unstoppable():
                remove(api, container)
            gpus = DockerSettings.of(self.settings).gpus
            if gpus and isinstance(error, APIError) and "device driver" in reason(error):
                raise UnsupportedError(_unsupported(api, "gpus", reason(error))) from error
            raise


def _remove_late(api: APIClient, name: str) -> None:
    """Remove a container that was made after the start was stopped."""
    with contextlib.closing(api):  # which may be in no use any more
        remove(api, name)


def _no_disk_limit(api: BreakableClient, why: str) -> UnheldLimitsError:
    return UnheldLimitsError(_unsupported(api, "container_disk", why), ["container_disk"], why)


def _unsupported(api: BreakableClient, setting: str, why: str) -> str:
    return f"backend 'docker' cannot do what {setting} asks for with the engine at {api.engine}: {why}"


def _mapping(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) else {}


def _ignores_disk_limits(api: APIClient) -> bool:
    """Return True if the engine would take a disk limit and not hold it."""
    status = dict(api.info().get("DriverStatus") or [])
    return "containerd.snapshotter" in status.get("driver-type", "")
