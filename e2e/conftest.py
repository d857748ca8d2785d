from __future__ import annotations

from collections.abc import Callable, Iterator

import docker
import pytest
from targets.engines import PYTHON_IMAGE, require_docker

from environments import create_environment
from environments.docker import DockerEnvironment

MakeDocker = Callable[..., DockerEnvironment]


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    """The Docker engine, to look at and to cause faults with."""
    client = require_docker()
    yield client
    client.close()


@pytest.fixture
def docker_environment(engine: docker.DockerClient) -> Iterator[MakeDocker]:
    """Makes environments, which are cleaned up in the end."""
    made: list[DockerEnvironment] = []

    def make(**settings: object) -> DockerEnvironment:
        environment = create_environment("docker", **{"image": PYTHON_IMAGE, **settings})
        assert isinstance(environment, DockerEnvironment)
        made.append(environment)
        return environment

    yield make
    for environment in made:
        environment.cleanup()


@pytest.fixture
def container_of(engine: docker.DockerClient) -> Callable[[DockerEnvironment], docker.models.containers.Container]:
    """The container that an environment runs commands in."""

    def find(environment: DockerEnvironment) -> docker.models.containers.Container:
        return engine.containers.get(environment.execute_oneshot("hostname").output.strip())

    return find
