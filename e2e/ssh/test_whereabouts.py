"""The host of a target, and its forwarded ports."""

from __future__ import annotations

import hashlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from targets.ssh_server import SSHServer

from environments import BaseEnvironment, TerminalError, UnsupportedError, create_environment
from environments.conformance.check import wait_until
from environments.target import Address

ANSWERING = """\
import hashlib, socket, threading
listener = socket.create_server(("127.0.0.1", 0), backlog=200)
print(listener.getsockname()[1], flush=True)
def serve(connection):
    with connection:
        hashed = hashlib.sha256()
        while data := connection.recv(65536):
            hashed.update(data)
        for _ in range(64):
            connection.sendall(hashed.digest() * 2048)
while True:
    threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
"""
"""A server that reads to the end of the input, and then answers with 4 MB derived from the input's hash."""


@pytest.fixture
def env(server: SSHServer) -> Iterator[BaseEnvironment]:
    with create_environment("ssh", **server.settings) as env:
        yield env


@pytest.fixture
def served(env: BaseEnvironment) -> Address:
    return env.address(int(env.start(["python3", "-c", ANSWERING]).expect("\n", timeout=30)))


def sockets(address: Address) -> int:
    """Return the number of this process's sockets at a local port: listening and accepted."""
    here = f"{socket.inet_aton(address.host)[::-1].hex().upper()}:{address.port:04X}"
    lines = Path("/proc/self/net/tcp").read_text().splitlines()
    inodes = {words[9] for line in lines if (words := line.split())[1] == here}
    held = (str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(name.removeprefix("socket:[").rstrip("]") in inodes for name in held)


def gets_the_answer(address: Address, data: bytes) -> bool:
    """Send data and the end of the input; return True if the answer is complete."""
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer == hashlib.sha256(data).digest() * 2048 * 64


def test_a_target_names_the_command_that_logs_in(env: BaseEnvironment, server: SSHServer) -> None:
    target = env.target
    assert (target.kind, target.id, target.host) == ("host", "127.0.0.1", "127.0.0.1")
    assert target.enter[0] == "ssh"
    assert ("-p", str(server.port)) == target.enter[3:5]
    got = subprocess.run([*target.enter, "echo $SSH_CONNECTION"], capture_output=True, text=True, check=True)
    assert got.stdout.split()[3] == str(server.port)
    with create_environment("ssh", **server.settings, password="hunter2", passphrase="swordfish") as other:
        shown = repr(other.target)
    assert "hunter2" not in shown and "swordfish" not in shown


def test_many_connections_are_forwarded_at_once_with_half_close(served: Address) -> None:
    assert gets_the_answer(served, bytes(range(256)) * 20_000)
    assert wait_until(lambda: sockets(served) == 1, 60)
    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(lambda number: gets_the_answer(served, str(number).encode()), range(20)))


def test_a_forwarded_port_is_stable_and_closed_by_cleanup(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        address = env.address(1)
        assert env.address(1) == address != env.address(2)
        assert address.host == "127.0.0.1"
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            connection.sendall(b"nobody")
            with pytest.raises(ConnectionResetError):  # nothing listens there
                connection.recv(1)
    assert sockets(address) == 0
    with socket.socket() as probe:
        assert probe.connect_ex((address.host, address.port)) != 0
    with pytest.raises(TerminalError, match="cleaned up"):
        env.address(1)


def test_cleanup_ends_open_connections(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        address = env.address(int(env.start(["python3", "-c", ANSWERING]).expect("\n", timeout=30)))
        connection = socket.create_connection((address.host, address.port), timeout=60)
        connection.sendall(b"begun")
        assert wait_until(lambda: sockets(address) == 2, 60)
    with connection:
        assert connection.recv(1) == b""
    assert sockets(address) == 0


def test_a_forwarded_port_survives_a_dropped_link(env: BaseEnvironment, server: SSHServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = env.address(listener.getsockname()[1])
        server.kill_connections()
        with socket.create_connection((address.host, address.port), timeout=60) as near:
            far, _ = listener.accept()
            with far:
                far.sendall(b"here")
                assert near.recv(4) == b"here"


def test_a_server_that_forwards_nothing_is_named(start_server: Callable[..., SSHServer], caplog) -> None:
    with create_environment("ssh", **start_server(options="AllowTcpForwarding no").settings) as env:
        address = env.address(80)
        with (
            socket.create_connection((address.host, address.port), timeout=60) as connection,
            pytest.raises(ConnectionResetError),
        ):
            connection.recv(1)
        with pytest.raises(UnsupportedError, match="AllowTcpForwarding"):
            env.address(80)
    assert "forwards no connection to port 80" in caplog.text
