from __future__ import annotations

from targets.docker_fixtures import docker_environment, engine

__all__ = ["docker_environment", "engine"]
