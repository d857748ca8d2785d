"""Fixtures of tests on Docker: the engine, and environments that are removed at the end."""

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
    """A client of the Docker engine, to inspect containers and to cause faults."""
    client = require_docker()
    yield client
    client.close()


@pytest.fixture
def docker_environment(engine: docker.DockerClient) -> Iterator[MakeDocker]:
    """Creates environments, and cleans them up at the end."""
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
    """An environment with default settings, shared by all tests of a file."""
    with create_environment("docker", image=PYTHON_IMAGE) as environment:
        assert isinstance(environment, DockerEnvironment)
        yield environment


@pytest.fixture(scope="session")
def container_of(engine: docker.DockerClient) -> Callable[[DockerEnvironment], Container]:
    """Finds the container of an environment."""
    return lambda environment: engine.containers.get(environment.target.id)


def containers_of(engine: docker.DockerClient, task: str) -> list[Container]:
    """Return the containers of a task, also ended ones."""
    return engine.containers.list(all=True, filters={"label": f"hermes-environments.task={task}"}, ignore_removed=True)  # type: ignore[no-any-return]
