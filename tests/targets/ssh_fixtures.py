"""The SSH server of this machine that all tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from targets.ssh_server import SSHServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    """Start a server on this machine for all tests of a file. No test stops or reconfigures the server."""
    server = SSHServer(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.remove()
