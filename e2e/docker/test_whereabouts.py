"""What is said of a container, and where its ports are."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

import pytest
from targets.ssh_server import SSHServer

from environments import EnvironmentLostError, UnsupportedError, create_environment
from environments.target import this_machine

SERVER = """\
import http.server
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def port_of_a_server(env) -> int:
    """Start a web server in a target, and return its port there."""
    return int(env.start(["python3", "-c", SERVER], cwd="/usr").expect("\n", timeout=30))


def test_a_person_gets_in_by_what_the_target_says(docker_environment, container_of):
    env = docker_environment(user="1000:1000", cwd="/usr")
    target, container = env.target, container_of(env)
    assert (target.backend, target.kind, target.host) == ("docker", "container", this_machine())
    assert (target.id, target.name) == (container.id, container.name)
    assert target.enter[:3] == ("docker", "exec", "-it")
    enter = [word for word in target.enter if word != "-it"]  # there is no terminal here
    got = subprocess.run([*enter, "-c", "id -u; pwd"], capture_output=True, text=True, check=True)
    assert got.stdout == "1000\n/usr\n"
    assert container.name in str(target) and target.id[:12] in str(target)


def test_a_container_that_was_removed_is_lost_and_its_successor_is_told(docker_environment, container_of):
    env = docker_environment()
    removed = env.target.id
    container_of(env).remove(force=True)
    with pytest.raises(EnvironmentLostError, match=removed[:12]):
        env.target  # noqa: B018 - it is looked up
    assert env.target.id != removed


def test_a_port_is_reached_at_the_containers_own_address(docker_environment, container_of):
    env = docker_environment()
    address = env.address(port_of_a_server(env))
    assert address.host == container_of(env).attrs["NetworkSettings"]["IPAddress"]
    with urllib.request.urlopen(f"{address.url}/lib/os-release") as answer:
        assert b"ID=debian" in answer.read()


def test_a_container_without_a_network_has_no_address(docker_environment):
    with pytest.raises(UnsupportedError, match="has no network"):
        docker_environment(network=False).address(80)


def test_on_the_hosts_network_a_port_is_the_hosts(docker_environment):
    assert str(docker_environment(extra_args=["--network=host"]).address(80)) == "127.0.0.1:80"


def test_over_ssh_both_go_through_the_server(docker_environment, tmp_path: Path):
    server = SSHServer(tmp_path)
    server.start()
    try:
        settings = {f"ssh_{name.removeprefix('ssh_')}": value for name, value in server.settings.items()}
        env = docker_environment(over="ssh", **settings)
        address = env.address(port_of_a_server(env))
        assert address.host == "127.0.0.1"
        with urllib.request.urlopen(f"{address.url}/lib/os-release") as answer:
            assert b"ID=debian" in answer.read()
        *login, command = env.target.enter
        got = subprocess.run(
            [word for word in login if word != "-t"] + [f"{command.replace(' -it ', ' ')} -c pwd"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert (login[0], got.stdout) == ("ssh", "/workspace\n")
        env.cleanup()
    finally:
        server.stop()


def test_a_port_that_cannot_be_is_refused_before_anything_starts():
    with create_environment("docker", container="no-such-one") as env:
        for port in (0, 65536):
            with pytest.raises(ValueError, match="from 1 to 65535"):
                env.address(port)
        with pytest.raises(TypeError, match="whole number"):
            env.address("80")  # type: ignore[arg-type]


def test_a_person_gets_in_as_another_user(docker_environment):
    target = docker_environment(user="1000:1000", cwd="/usr").target
    enter = [word for word in target.enter_as("root") if word != "-it"]
    assert subprocess.run([*enter, "-c", "id -u"], capture_output=True, text=True, check=True).stdout == "0\n"
