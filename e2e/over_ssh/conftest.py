from __future__ import annotations

from collections.abc import Iterator

import pytest
from targets.ssh_server import SSHServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHServer]:
    """This machine, behind an SSH server."""
    server = SSHServer(tmp_path_factory.mktemp("sshd"))
    server.start()
    yield server
    server.remove()
