"""Engines on an SSH host. tests_long/over_ssh has their faults and listings."""

from __future__ import annotations

import contextlib
import getpass
import subprocess
import urllib.request

import docker
import pytest
from targets.docker_fixtures import MakeDocker
from targets.engines import require_singularity
from targets.ssh_server import SSHServer

from environments import BaseEnvironment, EnvironmentLostError, EnvironmentStartError, SettingsError, create_environment
from environments.docker import DockerEnvironment

SERVER = """\
import http.server
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def check_survives_a_dropped_link(env: BaseEnvironment, server: SSHServer) -> None:
    """Check that a dropped link loses neither the target nor the session."""
    env.execute("cd /var; export KEPT=kept; echo here >/tmp/file")
    env.execute("true")  # the shell reads this command after the state report of the first
    target = env.target.id
    server.kill_connections()
    with contextlib.suppress(EnvironmentLostError):  # if the link drops right behind the command
        env.execute("true")
    assert env.execute("pwd; echo $KEPT; cat /tmp/file").output == "/var\nkept\nhere\n"
    assert env.target.id == target


def test_a_container_has_ports_and_an_enter_command_and_outlives_its_link(
    docker_environment: MakeDocker, server: SSHServer
) -> None:
    env = docker_environment(**server.over)
    check_survives_a_dropped_link(env, server)
    address = env.address(int(env.start(["python3", "-c", SERVER], cwd="/usr").expect("\n", timeout=60)))
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
    assert (login[0], got.stdout) == ("ssh", "/var\n")


def test_a_container_is_forked_and_the_fork_leaves_nothing(
    docker_environment: MakeDocker, engine: docker.DockerClient, server: SSHServer
) -> None:
    env = docker_environment(**server.over)
    env.execute("cd /opt; echo here > file")
    with env.fork() as fork:
        snapshot = fork.forked_from  # type: ignore[attr-defined]  # attribute of environments with shells
        assert fork.execute("pwd; cat file").output == "/opt\nhere\n"
        assert engine.images.get(snapshot)
    with pytest.raises(docker.errors.ImageNotFound):
        engine.images.get(snapshot)


def test_an_instance_outlives_its_link(server: SSHServer) -> None:
    sandbox = str(require_singularity().sandbox)
    with create_environment("singularity", image=sandbox, **server.over) as env:
        check_survives_a_dropped_link(env, server)
        assert env.target.host == "127.0.0.1"
        assert env.target.enter[0] == "ssh"


def test_docker_host_may_name_a_host_to_log_in_at(
    docker_environment: MakeDocker, server: SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = getpass.getuser()
    monkeypatch.setenv("DOCKER_HOST", f"ssh://{user}@127.0.0.1:{server.port}")
    monkeypatch.setenv("TERMINAL_SSH_KEY", str(server.key))
    monkeypatch.setenv("TERMINAL_SSH_CONFIG", str(server.config))
    monkeypatch.setenv("TERMINAL_SSH_HOST", "another.invalid")
    env = docker_environment()
    assert env.execute("echo inside").output == "inside\n"
    assert f"at ssh://{user}@127.0.0.1:{server.port}" in DockerEnvironment.probe(env.settings)


def test_a_start_that_is_refused_names_the_host(server: SSHServer) -> None:
    here = f"127.0.0.1:{server.port}"
    sandbox = str(require_singularity().sandbox)
    rows: list[tuple[str, dict[str, object], type[Exception], str]] = [
        ("docker", {"ssh_port": 1}, EnvironmentStartError, r"cannot connect to .*:1: nothing listens there"),
        ("singularity", {"ssh_port": 1}, EnvironmentStartError, r"cannot connect to .*:1: nothing listens there"),
        (
            "singularity",
            {"image": "~/none.sif"},
            EnvironmentStartError,
            rf"no image {server.home}/none.sif on .*{here}",
        ),
        ("singularity", {"image": sandbox, "binds": ["/no:/mnt"]}, SettingsError, rf"there is no /no on .*{here}"),
    ]
    for backend, settings, kind, words in rows:
        with pytest.raises(kind, match=words), create_environment(backend, **{**server.over, **settings}) as env:
            env.execute("true")
