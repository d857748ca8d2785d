from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.docker_fixtures import docker_environment, engine
from targets.ssh_fixtures import server
from targets.ssh_server import SSHContainer, SSHServer

__all__ = ["docker_environment", "engine", "server"]

Over = dict[str, object]


@pytest.fixture
def over(server: SSHServer) -> Over:
    """Settings for the server."""
    return server.over


@pytest.fixture
def start_host(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Iterator[Callable[[str], SSHServer]]:
    """Start an SSH server on this machine with a prologue, some shell text, before each command."""
    servers: list[SSHServer] = []

    def start(before: str) -> SSHServer:
        shell = tmp_path / "shell"
        shell.write_text(f'#!/bin/sh\n{before}\nexec /bin/sh "$@"\n')
        shell.chmod(0o755)
        servers.append(SSHServer(tmp_path_factory.mktemp("sshd"), login_shell=str(shell)))
        servers[-1].start()
        return servers[-1]

    yield start
    for started in servers:
        started.remove()


@pytest.fixture(scope="module")
def host_without_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Over]:
    """Settings for a host without Docker and without Apptainer."""
    container = SSHContainer(tmp_path_factory.mktemp("container"))
    yield {**container.over, "ssh_user": "agent"}
    container.remove()


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a program, and return its directory."""

    def write(name: str, text: str) -> Path:
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
        return folder

    return write
