"""From settings to what the engine is asked to make: hardened by default, and opened only where a setting says so."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from environments.base import SettingsError
from environments.docker_flags import apply_flags, parse_gpus

if TYPE_CHECKING:
    from environments.settings import EnvironmentSettings

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

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
        SettingsError: A value is not allowed, or two settings contradict each other.
        UnsupportedError: `docker_extra_args` has a flag that this backend does not have.
    """
    options = ContainerOptions(settings.docker_image or DEFAULT_IMAGE)
    options.host = {
        "init": True,
        "cap_drop": ["ALL"],
        "cap_add": list(KEPT_CAPABILITIES),
        "security_opt": ["no-new-privileges"],
        "pids_limit": settings.container_pids or DEFAULT_PIDS,
        "binds": [_bind(volume) for volume in settings.docker_volumes],
        "tmpfs": {},
    }
    if not settings.docker_network:
        options.host["network_mode"] = "none"
    _set_limits(options, settings)
    _set_user(options, settings)
    if settings.docker_mount_cwd_to_workspace:
        options.host["binds"] = [*_binds(options), f"{Path.cwd()}:{WORKSPACE}"]
        options.config["working_dir"] = WORKSPACE
    options.environment = _environment(settings)
    apply_flags(settings, options.host, options.config, options.environment)
    tmpfs = options.host["tmpfs"]
    assert isinstance(tmpfs, dict)
    if TMP not in tmpfs and not any(bind.split(":")[1].rstrip("/") == TMP for bind in _binds(options)):
        tmpfs[TMP] = TMP_OPTIONS
    return options


def _binds(options: ContainerOptions) -> list[str]:
    binds = options.host["binds"]
    assert isinstance(binds, list)
    return binds


def _set_limits(options: ContainerOptions, settings: EnvironmentSettings) -> None:
    host = options.host
    if settings.container_cpu:
        host["nano_cpus"] = int(settings.container_cpu * 1e9)
    if settings.container_memory:
        # Equal limits leave no swap: a process that outgrows its memory ends, and does not slow the machine down.
        host["mem_limit"] = host["memswap_limit"] = f"{settings.container_memory}m"
    if settings.container_disk:
        host["storage_opt"] = {"size": f"{settings.container_disk}m"}
    if settings.docker_gpus:
        host["device_requests"] = parse_gpus([settings.docker_gpus])


def _set_user(options: ContainerOptions, settings: EnvironmentSettings) -> None:
    if settings.docker_run_as_host_user:
        if settings.docker_user:
            raise SettingsError("docker_user and docker_run_as_host_user contradict each other; keep one")
        options.config["user"] = f"{os.getuid()}:{os.getgid()}"
    elif settings.docker_user:
        options.config["user"] = settings.docker_user


def _bind(volume: str) -> str:
    parts = volume.split(":")
    if not 2 <= len(parts) <= 3 or not parts[0] or not parts[1].startswith("/"):
        raise SettingsError(
            f"docker_volumes: {volume!r} should be host_path:/container_path, or host_path:/container_path:ro"
        )
    if parts[0].startswith(("~", ".")):
        parts[0] = str(Path(parts[0]).expanduser().absolute())
    return ":".join(parts)


def _environment(settings: EnvironmentSettings) -> dict[str, str]:
    here: Mapping[str, str] = os.environ
    forwarded = {name: here[name] for name in settings.docker_forward_env if name in here}
    for name in (*settings.docker_env, *settings.docker_forward_env):
        if not _VARIABLE_NAME.fullmatch(name):
            raise SettingsError(f"docker_env and docker_forward_env: {name!r} is not the name of a variable")
    return {**forwarded, **settings.docker_env}
