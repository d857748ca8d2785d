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
    """Image, pulled when the engine does not have it; `python:3.12-slim` if not set."""
    build: str | None = None
    """A folder here with a Dockerfile, or the path of one, to build the image from in place of naming one. What is
    unchanged is not built anew."""
    container: str | None = None
    """Name or id of a container that runs already, to run commands in. It is neither stopped nor removed, and nothing
    of it is changed, so that settings of a new container cannot be given along with it."""
    volumes: tuple[str, ...] = ()
    """Mounts, each `host_path:/container_path` or with `:ro` behind it. The host path must be there."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for everything that runs in the container."""
    forward_env: tuple[str, ...] = ()
    """Names of variables of this process, set there to the value they have here."""
    extra_args: tuple[str, ...] = field(default=(), repr=False)
    """Flags of `docker run`, such as `["--shm-size=1g"]`; one that is not understood is refused."""
    mount_cwd_to_workspace: bool = False
    """Whether to mount this process's working directory at `/workspace`, and start there."""
    run_as_host_user: bool = False
    """Whether commands run under this process's user and group id."""
    network: Network = "full"
    """`full` is the engine's usual network, `none` is none, and a list has the hosts that alone can be reached."""
    user: str | None = None
    """User, or `uid:gid`, that commands run under; the image's own if not set."""
    tmp_size: NonNegativeInt | None = None
    """Size limit of `/tmp` in MB; half of `container_memory`, which it is a part of, if not set; 0 is no limit."""
    gpus: str | None = None
    """GPUs to give to the container: `all`, a number, or `device=ID,ID`."""

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
