"""What can be set of containers of a Docker engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from environments.docker.mounts import check_volume
from environments.errors import SettingsError
from environments.settings import RESOURCE_SETTINGS, BackendSettings, EnvironmentSettings
from environments.variables import check_names, for_target

if TYPE_CHECKING:
    from pydantic import NonNegativeInt


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings(BackendSettings):
    """The settings of backend `docker`."""

    prefix: ClassVar[str] = "docker_"
    enforces: ClassVar[frozenset[str]] = frozenset(RESOURCE_SETTINGS)

    image: str | None = None
    """Image, pulled when the engine does not have it; `python:3.12-slim` if not set."""
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
    network: bool = True
    """Whether the container has a network."""
    user: str | None = None
    """User, or `uid:gid`, that commands run under; the image's own if not set."""
    tmp_size: NonNegativeInt | None = None
    """Size limit of `/tmp` in MB; half of `container_memory`, which it is a part of, if not set; 0 is no limit."""
    gpus: str | None = None
    """GPUs to give to the container: `all`, a number, or `device=ID,ID`."""

    def target_variables(self) -> Mapping[str, str]:
        """Return the variables of `env` and `forward_env`, see `BackendSettings`."""
        return for_target(self.env, self.forward_env)

    def refuse(self, settings: EnvironmentSettings) -> None:
        """Refuse what cannot be, see `BackendSettings`."""
        check_names("docker_env and docker_forward_env", (*self.env, *self.forward_env))
        if self.run_as_host_user and self.user:
            raise SettingsError("docker_user and docker_run_as_host_user contradict each other; keep one")
        for volume in self.volumes:
            check_volume("docker_volumes", volume)
