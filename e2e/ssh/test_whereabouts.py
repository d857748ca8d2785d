"""Which host it is, and its ports, which are forwarded."""

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
"""Takes all that is sent, and only at its end answers with 4 MB that depend on it."""


@pytest.fixture
def env(server: SSHServer) -> Iterator[BaseEnvironment]:
    with create_environment("ssh", **server.settings) as env:
        yield env


@pytest.fixture
def served(env: BaseEnvironment) -> Address:
    return env.address(int(env.start(["python3", "-c", ANSWERING]).expect("\n", timeout=30)))


def sockets(address: Address) -> int:
    """Return how many sockets this process has at a port: those that accept and have been accepted."""
    here = f"{socket.inet_aton(address.host)[::-1].hex().upper()}:{address.port:04X}"
    lines = Path("/proc/self/net/tcp").read_text().splitlines()
    inodes = {words[9] for line in lines if (words := line.split())[1] == here}
    held = (str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(name.removeprefix("socket:[").rstrip("]") in inodes for name in held)


def ask(address: Address, data: bytes) -> bool:
    """Send data, end that, and return whether what comes back is all there."""
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return answer == hashlib.sha256(data).digest() * 2048 * 64


def test_a_person_logs_in_by_what_the_target_says(env: BaseEnvironment, server: SSHServer) -> None:
    target = env.target
    assert (target.kind, target.id, target.host) == ("host", "127.0.0.1", "127.0.0.1")
    assert target.enter[0] == "ssh"
    assert ("-p", str(server.port)) == target.enter[3:5]
    got = subprocess.run([*target.enter, "echo $SSH_CONNECTION"], capture_output=True, text=True, check=True)
    assert got.stdout.split()[3] == str(server.port)
    with create_environment("ssh", **server.settings, password="hunter2", passphrase="swordfish") as other:
        shown = repr(other.target)
    assert "hunter2" not in shown and "swordfish" not in shown


def test_many_connections_are_joined_at_once_and_each_side_may_end_what_it_sends(served: Address) -> None:
    assert ask(served, bytes(range(256)) * 20_000)
    assert wait_until(lambda: sockets(served) == 1, 60)
    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(lambda number: ask(served, str(number).encode()), range(20)))


def test_a_port_is_the_same_each_time_and_given_back_in_the_end(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        address = env.address(1)
        assert env.address(1) == address != env.address(2)
        assert address.host == "127.0.0.1"
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            connection.sendall(b"nobody")
            with pytest.raises(ConnectionResetError):  # as nothing listens there
                connection.recv(1)
    assert sockets(address) == 0
    with socket.socket() as probe:
        assert probe.connect_ex((address.host, address.port)) != 0
    with pytest.raises(TerminalError, match="cleaned up"):
        env.address(1)


def test_cleanup_ends_connections_that_nobody_has_ended(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        address = env.address(int(env.start(["python3", "-c", ANSWERING]).expect("\n", timeout=30)))
        connection = socket.create_connection((address.host, address.port), timeout=60)
        connection.sendall(b"begun")
        assert wait_until(lambda: sockets(address) == 2, 60)
    with connection:
        assert connection.recv(1) == b""
    assert sockets(address) == 0


def test_a_port_goes_on_behind_a_connection_that_dropped(env: BaseEnvironment, server: SSHServer) -> None:
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
