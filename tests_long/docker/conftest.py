from __future__ import annotations

from targets.docker_fixtures import container_of, docker_environment, engine, shared

__all__ = ["container_of", "docker_environment", "engine", "shared"]
