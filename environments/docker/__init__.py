"""Commands in a container of a Docker engine, or of Podman."""

from typing import TYPE_CHECKING

from environments.docker.settings import DockerSettings
from environments.extras import handing_on

if TYPE_CHECKING:
    from environments.docker.environment import DockerEnvironment
else:
    __getattr__ = handing_on(__name__, "DockerEnvironment", extra="docker")

__all__ = ["DockerEnvironment", "DockerSettings"]
