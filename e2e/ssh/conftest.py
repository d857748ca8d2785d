from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from targets.ssh_server import SSHContainer, SSHServer

StartServer = Callable[..., SSHServer]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    """A server that all tests of a file share: none stops it or changes its configuration."""
    server = SSHServer(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.remove()


@pytest.fixture
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Starts servers of the test's own."""
    servers: list[SSHServer] = []

    def start(**options: object) -> SSHServer:
        server = SSHServer(tmp_path_factory.mktemp("sshd"), **options)  # type: ignore[arg-type]
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.remove()


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHContainer]:
    """A host that all tests of a file share."""
    made = SSHContainer(tmp_path_factory.mktemp("container"))
    yield made
    made.remove()
