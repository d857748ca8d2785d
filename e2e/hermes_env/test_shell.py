"""`hermes-env shell` in a container, on a real pseudo-terminal."""

from __future__ import annotations

import docker
from targets.command_line import OpenTerminal
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE
from targets.processes import processes_with

from environments.conformance.check import wait_until

IN_DOCKER = ("shell", "-b", "docker", "--set", f"image={PYTHON_IMAGE}")


def test_programs_have_the_size_and_the_type_of_the_terminal(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal(*IN_DOCKER)
    user.type("stty size; echo $TERM\r")
    user.expect("33 111\r\nxterm-256color\r\n")
    user.type("until stty size | grep '20 66'; do sleep 0.1; done\r")
    user.resize(20, 66)
    user.expect("20 66\r\n")
    user.type(f"sleep {nap}\r")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    user.type("\x03echo code$?\r")
    user.expect("code130\r\n")
    user.type("exit 7\r")
    assert user.wait_for_exit() == 7
    assert user.has_initial_settings


def test_an_image_without_bash_gets_sh(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell", "-b", "docker", "--set", f"image={MINIMAL_IMAGE}", "--cwd", "/tmp")
    user.type('echo "in $PWD ${BASH_VERSION-without bash}"\r')
    user.expect("in /tmp without bash\r\n")
    user.type("exit 3\r")
    assert user.wait_for_exit() == 3


def test_a_removed_container_is_an_error_and_the_terminal_is_restored(
    open_terminal: OpenTerminal, engine: docker.DockerClient
) -> None:
    user = open_terminal(*IN_DOCKER)
    user.type("echo in $(hostname)\r")
    name = user.expect("in [0-9a-f]{12}").removeprefix("in ")
    engine.containers.get(name).remove(force=True)
    user.expect("\nhermes-env: .*container.*")
    assert user.wait_for_exit() == 125
    assert user.has_initial_settings
