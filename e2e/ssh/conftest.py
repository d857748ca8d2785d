from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from targets.ssh_fixtures import server
from targets.ssh_server import SSHContainer, SSHServer

__all__ = ["server"]

StartServer = Callable[..., SSHServer]


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers for a single test."""
    servers: list[SSHServer] = []

    def start(**options: object) -> SSHServer:
        servers.append(SSHServer(tmp_path_factory.mktemp("sshd"), **options))  # type: ignore[arg-type]
        servers[-1].start()
        return servers[-1]

    yield start
    for started in servers:
        started.remove()


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHContainer]:
    """Start a host for all tests of a file."""
    made = SSHContainer(tmp_path_factory.mktemp("container"))
    yield made
    made.remove()
