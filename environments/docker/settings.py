"""Settings of backend `docker`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from environments.errors import SettingsError, UnsupportedError
from environments.network.setting import Network
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings, of_new_targets, refuse_beside
from environments.variables import check_names, for_target

if TYPE_CHECKING:
    from pydantic import NonNegativeInt


_CONTAINER = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]*")
_OF_NEW_CONTAINERS = (
    *("image", "build", "volumes", "extra_args", "mount_cwd_to_workspace", "network", "tmp_size", "gpus"),
)
"""Settings of a new container; none of them applies to a joined container."""
PATH_BEGINS = ("/", "~", ".")
"""The first character of a path. The name of a volume begins with another one."""


def check_volume(volume: str) -> None:
    """Check the form of a mount, as for the docker program.

    Raises:
        SettingsError: The volume has another form.
    """
    parts = volume.split(":")
    if not 2 <= len(parts) <= 3 or not parts[0] or not parts[1].startswith("/"):
        raise SettingsError(
            f"backend 'docker': volumes: {volume!r} should be host_path:/container_path, or "
            "host_path:/container_path:ro"
        )
    if "/" in parts[0] and not parts[0].startswith(PATH_BEGINS):
        raise SettingsError(
            f"backend 'docker': volumes: {volume!r} begins with neither a path nor the name of a volume; write "
            f"./{volume}, which is relative to the working directory here, or an absolute path"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings(BackendSettings):
    """Settings of backend `docker`."""

    prefix: ClassVar[str] = "docker_"
    puts_aside: ClassVar[Mapping[str, Collection[str]]] = {
        "docker_container": of_new_targets("docker_", _OF_NEW_CONTAINERS),
        "docker_image": ("docker_container", "docker_build"),
        "docker_build": ("docker_container", "docker_image"),
    }
    goes_over: ClassVar[bool] = True
    enforces: ClassVar[frozenset[str]] = frozenset(RESOURCE_SETTINGS)

    image: str | None = None
    """Image, pulled if missing; `python:3.12-slim` if not set."""
    build: str | None = None
    """Directory with a Dockerfile, or the file's path, to build the image from. Unchanged content is not rebuilt."""
    container: str | None = None
    """Name or id of a running container to join. It is never stopped or removed."""
    volumes: tuple[str, ...] = ()
    """Mounts, each `host_path:/container_path`, read-only with `:ro` behind. The host path must exist."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for all processes in the container."""
    forward_env: tuple[str, ...] = ()
    """Names of this process's variables to set there, with their values."""
    extra_args: tuple[str, ...] = field(default=(), repr=False)
    """Flags of `docker run`, such as `["--shm-size=1g"]`; unknown flags are refused."""
    mount_cwd_to_workspace: bool = False
    """True: mount this process's working directory at `/workspace` and start there."""
    run_as_host_user: bool = False
    """True: run commands under this process's user and group id."""
    network: Network = "full"
    """`full` is the engine's usual network, `none` only loopback; a list names the reachable hosts."""
    user: str | None = None
    """User, or `uid:gid`, of commands; the image's user if not set."""
    tmp_size: NonNegativeInt | None = None
    """Size of `/tmp` in MB, part of `container_memory`; half of it if not set, 0 for no limit."""
    gpus: str | None = None
    """GPUs: `all`, a number, or `device=ID,ID`."""

    def unheld(self, settings: EnvironmentSettings) -> frozenset[str]:
        # The container to join has limits of its own.
        return frozenset(RESOURCE_SETTINGS) if self.container else super(DockerSettings, self).unheld(settings)

    def target_variables(self) -> Mapping[str, str]:
        return for_target(self.env, self.forward_env)

    def refuse(self, settings: EnvironmentSettings) -> None:
        check_names("env and forward_env of backend 'docker'", (*self.env, *self.forward_env))
        if self.run_as_host_user and self.user:
            raise SettingsError("backend 'docker': user and run_as_host_user contradict each other; keep one")
        for name, remedy in (("mount_cwd_to_workspace", "use volumes"), ("run_as_host_user", "use user")):
            if settings.over and getattr(self, name):
                raise UnsupportedError(
                    f"backend 'docker' over {settings.over} cannot do what {name} asks for, as the engine is on "
                    f"another machine than this process; {remedy}, with names of that machine"
                )
        if self.build and self.image:
            raise SettingsError("backend 'docker': build and image contradict each other; keep one")
        if self.container is not None:
            if not _CONTAINER.fullmatch(self.container):
                raise SettingsError(
                    f"backend 'docker': container is {self.container!r}; give the name or id of one container"
                )
            refuse_beside(settings, "container", _OF_NEW_CONTAINERS)
