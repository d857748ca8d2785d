"""Requests of an environment to the engine; each is a round trip."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest
from targets.engines import PYTHON_IMAGE
from targets.refusing_link import RefusingLink

from environments import create_environment


def test_a_container_costs_the_engine_five_requests(
    engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RefusingLink(tmp_path / "engine.sock", "/var/run/docker.sock") as link:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/engine.sock")
        for _ in range(2):  # the first environment also queries the engine's abilities
            asked, connected = len(link.requests), link.connections
            with create_environment("docker", image=PYTHON_IMAGE) as env:
                assert env.execute("echo works").output == "works\n"
        requests, connections = link.requests[asked:], link.connections - connected
    execs = [each for each in requests if "exec" in each]
    once = [each for each in requests if "exec" not in each]
    assert once == ["POST /containers/create", "POST /containers//start", "DELETE /containers/"]
    assert len(execs) in (2, 4), "the session's shell and, if it had time to start, the shell that ends commands"
    assert connections <= 3, "an exec takes over the connection of the request before it"
