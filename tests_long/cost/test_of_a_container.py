from __future__ import annotations

from unittest import mock

import pytest
import requests
from targets.engines import PYTHON_IMAGE, require_docker

from cost.budget import OF_A_CONTAINER, excess
from environments import create_environment


@pytest.fixture
def sent():
    """The requests to the engine."""
    require_docker().close()
    asked: list[str] = []
    send = requests.Session.send

    def counted(session: requests.Session, request: requests.PreparedRequest, **options: object) -> object:
        asked.append(f"{request.method} {request.path_url}")
        return send(session, request, **options)

    with mock.patch.object(requests.Session, "send", counted):
        yield asked


def test_a_container_costs_no_more_requests_than_its_budget(sent):
    # The first use asks for the engine's version and the image.
    with create_environment("docker", image=PYTHON_IMAGE) as first:
        first.execute("true")
        first.execute_oneshot("true")
    sent.clear()
    with create_environment("docker", image=PYTHON_IMAGE) as env:
        env.execute("true")
        env.execute_oneshot("true")
        counts = [len(sent)]
        sent.clear()
    counts.append(len(sent))
    for (thing, budget), count in zip(OF_A_CONTAINER.items(), counts, strict=True):
        assert excess(f"{thing}, of a container", {"requests": count}, budget) == [], sent
