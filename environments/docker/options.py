"""From settings to what the engine is asked to make: hardened by default, and opened only where a setting says so."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from environments.docker.flags import apply_flags, parse_gpus
from environments.docker.settings import DockerSettings
from environments.settings import EnvironmentSettings
from environments.variables import for_target

DEFAULT_IMAGE = "python:3.12-slim"
DEFAULT_PIDS = 256
"""Enough for a parallel build, and an end to a fork bomb."""
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

    def fingerprint(self, image_id: str) -> str:
        """Return a text that differs when the image, the mounts, the limits or other options of the container differ.

        Args:
            image_id: The id of the image, as its name may come to mean another one.
        """
        wanted = json.dumps([image_id, self.host, self.config], sort_keys=True, default=str)
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
        "pids_limit": settings.container_pids or DEFAULT_PIDS,
        "binds": [_bind(volume) for volume in own.volumes],
        "tmpfs": {},
    }
    if not own.network:
        options.host["network_mode"] = "none"
    _set_limits(options, settings, own.gpus)
    _set_user(options, own)
    if own.mount_cwd_to_workspace:
        options.host["binds"] = [*_binds(options), f"{Path.cwd()}:{WORKSPACE}"]
        options.config["working_dir"] = WORKSPACE
    options.environment = for_target(own.env, own.forward_env)
    apply_flags(own, options.host, options.config, options.environment)
    tmpfs = options.host["tmpfs"]
    assert isinstance(tmpfs, dict)
    if TMP not in tmpfs and not any(bind.split(":")[1].rstrip("/") == TMP for bind in _binds(options)):
        tmpfs[TMP] = TMP_OPTIONS
    return options


def _binds(options: ContainerOptions) -> list[str]:
    binds = options.host["binds"]
    assert isinstance(binds, list)
    return binds


def _set_limits(options: ContainerOptions, settings: EnvironmentSettings, gpus: str | None) -> None:
    host = options.host
    if settings.container_cpu:
        host["nano_cpus"] = int(settings.container_cpu * 1e9)
    if settings.container_memory:
        # Equal limits leave no swap: a process that outgrows its memory ends, and does not slow the machine down.
        host["mem_limit"] = host["memswap_limit"] = f"{settings.container_memory}m"
    if settings.container_disk:
        host["storage_opt"] = {"size": f"{settings.container_disk}m"}
    if gpus:
        host["device_requests"] = parse_gpus([gpus])


def _set_user(options: ContainerOptions, own: DockerSettings) -> None:
    if own.run_as_host_user:
        options.config["user"] = f"{os.getuid()}:{os.getgid()}"
    elif own.user:
        options.config["user"] = own.user


def _bind(volume: str) -> str:
    parts = volume.split(":")
    if parts[0].startswith(("~", ".")):
        parts[0] = str(Path(parts[0]).expanduser().absolute())
    return ":".join(parts)
