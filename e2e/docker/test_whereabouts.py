"""The command that enters a container, and the address of a port."""

from __future__ import annotations

import subprocess
import urllib.request

from environments.target import this_machine

SERVER = """\
import http.server
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def run_inside(enter: tuple[str, ...], *command: str) -> str:
    """Return the output of a command run by an `enter` command, without a terminal."""
    words = [word for word in enter if word != "-it"]
    return subprocess.run([*words, *command], capture_output=True, text=True, check=True).stdout


def test_a_target_names_the_command_that_enters_the_container(docker_environment, container_of):
    env = docker_environment(user="1000:1000", cwd="/usr")
    target, container = env.target, container_of(env)
    assert (target.backend, target.kind, target.host) == ("docker", "container", this_machine())
    assert (target.id, target.name) == (container.id, container.name)
    assert target.enter[:3] == ("docker", "exec", "-it")
    assert run_inside(target.enter, "-c", "id -u; pwd") == "1000\n/usr\n"
    assert run_inside(target.enter_as("root"), "-c", "id -u") == "0\n"
    assert container.name in str(target) and target.id[:12] in str(target)


def test_a_port_is_reached_at_the_containers_own_address(shared, container_of):
    port = int(shared.start(["python3", "-c", SERVER], cwd="/usr").expect("\n", timeout=60))
    address = shared.address(port)
    assert address.host == container_of(shared).attrs["NetworkSettings"]["IPAddress"]
    with urllib.request.urlopen(f"{address.url}/lib/os-release") as answer:
        assert b"ID=debian" in answer.read()


def test_on_the_hosts_network_a_port_is_the_hosts(docker_environment):
    assert str(docker_environment(extra_args=["--network=host"]).address(80)) == "127.0.0.1:80"
