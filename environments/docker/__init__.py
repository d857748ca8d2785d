"""Commands in a container of a Docker engine, or of Podman."""

from typing import TYPE_CHECKING

from environments.docker.settings import DockerSettings
from environments.extras import lazy_export

if TYPE_CHECKING:
    from environments.docker.environment import DockerEnvironment
else:
    __getattr__ = lazy_export(__name__, "DockerEnvironment", extra="docker")

__all__ = ["DockerEnvironment", "DockerSettings"]
