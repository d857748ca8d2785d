"""Fixtures of tests on Docker: an engine, and environments whose containers are removed in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import docker
import pytest
from docker.models.containers import Container

from environments import create_environment
from environments.docker import DockerEnvironment
from targets.engines import PYTHON_IMAGE, require_docker

MakeDocker = Callable[..., DockerEnvironment]


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="module")
def shared(engine: docker.DockerClient) -> Iterator[DockerEnvironment]:
    """An environment with the default settings, which all tests of a file share."""
    with create_environment("docker", image=PYTHON_IMAGE) as environment:
        assert isinstance(environment, DockerEnvironment)
        yield environment


@pytest.fixture(scope="session")
def container_of(engine: docker.DockerClient) -> Callable[[DockerEnvironment], Container]:
    """Finds the container that an environment runs commands in."""
    return lambda environment: engine.containers.get(environment.target.id)


def containers_of(engine: docker.DockerClient, task: str) -> list[Container]:
    """Return the containers of a task, those that have ended included."""
    return engine.containers.list(all=True, filters={"label": f"hermes-environments.task={task}"}, ignore_removed=True)  # type: ignore[no-any-return]
