"""`hermes-env shell` in a container, by a person at a real pseudo-terminal."""

from __future__ import annotations

import docker
from targets.command_line import Opens
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE
from targets.processes import processes_with

from environments.conformance.check import wait_until

IN_DOCKER = ("shell", "-b", "docker", "--set", f"image={PYTHON_IMAGE}")


def test_programs_there_know_the_window_and_the_kind_of_terminal(opens: Opens, nap: str) -> None:
    person = opens(*IN_DOCKER)
    person.type("stty size; echo $TERM\r")
    person.sees("33 111\r\nxterm-256color\r\n")
    person.type("until stty size | grep '20 66'; do sleep 0.1; done\r")
    person.resize(20, 66)
    person.sees("20 66\r\n")
    person.type(f"sleep {nap}\r")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    person.type("\x03echo code$?\r")
    person.sees("code130\r\n")
    person.type("exit 7\r")
    assert person.sees_the_end() == 7
    assert person.has_terminal_as_it_was


def test_where_there_is_no_bash_it_is_sh(opens: Opens) -> None:
    person = opens("shell", "-b", "docker", "--set", f"image={MINIMAL_IMAGE}", "--cwd", "/tmp")
    person.type('echo "in $PWD ${BASH_VERSION-without bash}"\r')
    person.sees("in /tmp without bash\r\n")
    person.type("exit 3\r")
    assert person.sees_the_end() == 3


def test_a_container_that_is_removed_is_an_error_and_gives_the_terminal_back(
    opens: Opens, engine: docker.DockerClient
) -> None:
    person = opens(*IN_DOCKER)
    person.type("echo in $(hostname)\r")
    name = person.sees("in [0-9a-f]{12}").removeprefix("in ")
    engine.containers.get(name).remove(force=True)
    person.sees("\nhermes-env: .*container.*")
    assert person.sees_the_end() == 125
    assert person.has_terminal_as_it_was
