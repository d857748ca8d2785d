"""Removal of a container by several threads at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import docker
import pytest
from docker.errors import NotFound
from targets.engines import PYTHON_IMAGE

from environments.docker import target

ATTEMPTS = 8


def test_each_removal_returns_once_the_container_is_gone(engine: docker.DockerClient) -> None:
    container = str(engine.containers.run(PYTHON_IMAGE, ["sleep", "1000"], detach=True).id)

    def remove(_: int) -> None:
        target.remove(engine.api, container)
        with pytest.raises(NotFound):
            engine.api.inspect_container(container)

    with ThreadPoolExecutor(ATTEMPTS) as threads:
        list(threads.map(remove, range(ATTEMPTS)))
