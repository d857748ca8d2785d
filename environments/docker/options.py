"""From settings to what the engine is asked to make: hardened by default, and opened only where a setting says so."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from environments.docker.flags import apply_flags, parse_gpus
from environments.docker.mounts import check_volume, mounts
from environments.docker.settings import DockerSettings
from environments.settings import EnvironmentSettings

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
"""What is given back of Docker's default fourteen. Left out are, among others, MKNOD, NET_RAW and SYS_CHROOT."""


@dataclass(slots=True)
class ContainerOptions:
    """What the engine is asked to make."""

    image: str
    host: dict[str, object] = field(default_factory=dict)
    """Keyword arguments of docker-py's `create_host_config`."""
    config: dict[str, object] = field(default_factory=dict)
    """Keyword arguments of docker-py's `create_container`."""
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    """Variables for every process that we start. They are no part of the container, whose description anybody who may
    use the engine can read, and which lies on its disk."""
    engine: str = ""
    """What tells its engine from others, where it is on another machine."""

    def fingerprint(self, image_id: str) -> str:
        """Return a text that differs when the image, the mounts, the limits or other options of the container differ.

        Args:
            image_id: The id of the image, as its name may come to mean another one.
        """
        elsewhere = [self.engine] if self.engine else []
        wanted = json.dumps([image_id, self.host, self.config, *elsewhere], sort_keys=True, default=str)
        return hashlib.sha256(wanted.encode()).hexdigest()[:24]


def container_options(settings: EnvironmentSettings) -> ContainerOptions:
    """Turn settings into options.

    Raises:
        SettingsError: `docker_extra_args` has a wrong value, or contradicts another setting.
        UnsupportedError: `docker_extra_args` has a flag that this backend does not have.
    """
    own = DockerSettings.of(settings)
    options = ContainerOptions(own.image or DEFAULT_IMAGE)
    options.host = {
        "init": True,
        "cap_drop": ["ALL"],
        "cap_add": list(KEPT_CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "volumes": list(own.volumes),
        "tmpfs": {},
    }
    if not own.network:
        options.host["network_mode"] = "none"
    _set_limits(options, settings, own.gpus)
    _set_user(options, own)
    if own.mount_cwd_to_workspace:
        workspace = f"{Path.cwd()}:{WORKSPACE}"
        check_volume("docker_mount_cwd_to_workspace", workspace)
        options.host["volumes"] = [*own.volumes, workspace]
        options.config["working_dir"] = WORKSPACE
    options.environment = dict(own.target_variables())
    apply_flags(own, options.host, options.config, options.environment)
    _set_mounts(options, settings, own)
    return options


def memory_limit(settings: EnvironmentSettings) -> int:
    """Return the limit of a container's memory in MB; 0 is none."""
    return DEFAULT_MEMORY if settings.container_memory is None else settings.container_memory


def pids_limit(settings: EnvironmentSettings) -> int:
    """Return the limit of a container's processes and threads; 0 is none."""
    return DEFAULT_PIDS if settings.container_pids is None else settings.container_pids


def _set_mounts(options: ContainerOptions, settings: EnvironmentSettings, own: DockerSettings) -> None:
    volumes, tmpfs = options.host.pop("volumes"), options.host["tmpfs"]
    assert isinstance(volumes, list)
    assert isinstance(tmpfs, dict)
    found = mounts(volumes, elsewhere=settings.over is not None)
    options.host |= {"mounts": list(found.paths), "binds": list(found.volumes)}
    if TMP not in tmpfs and TMP not in found.targets:
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
        host["device_requests"] = parse_gpus([gpus])


def _set_user(options: ContainerOptions, own: DockerSettings) -> None:
    if own.run_as_host_user:
        options.config["user"] = f"{os.getuid()}:{os.getgid()}"
    elif own.user:
        options.config["user"] = own.user
