"""A container that several remove at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import docker
import pytest
from docker.errors import APIError, NotFound
from requests import Response
from targets.engines import PYTHON_IMAGE

from environments.docker import removal

ATTEMPTS = 8


@pytest.fixture
def container(engine: docker.DockerClient) -> str:
    made = engine.containers.run(PYTHON_IMAGE, ["sleep", "1000"], detach=True)
    return str(made.id)


def test_all_return_when_it_is_gone(engine: docker.DockerClient, container: str) -> None:
    def remove(_: int) -> None:
        removal.remove(engine.api, container)
        with pytest.raises(NotFound):
            engine.api.inspect_container(container)

    with ThreadPoolExecutor(ATTEMPTS) as threads:
        list(threads.map(remove, range(ATTEMPTS)))


def test_a_removal_that_does_not_end_is_an_error(
    engine: docker.DockerClient, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "REMOVAL_TIMEOUT", 0.1)
    conflict = Response()
    conflict.status_code = 409
    error = APIError("Conflict", conflict, f"removal of container {container} is already in progress")
    with monkeypatch.context() as patch:
        patch.setattr(engine.api, "remove_container", Mock(side_effect=error))
        with pytest.raises(APIError, match="already in progress"):
            removal.remove(engine.api, container)
    removal.remove(engine.api, container)
