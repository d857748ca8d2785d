"""Processes in a container after a signal killed the program before its cleanup."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import docker
from docker.errors import APIError
from docker.models.containers import Container
from targets.engines import PYTHON_IMAGE

from environments.conformance.check import wait_until

PROGRAM = """
import sys
from environments import create_environment
env = create_environment("docker", image=sys.argv[1])
env.prepare()
env.start("trap '' TERM; echo on; exec sleep 4711").expect("on", 30)
env.execute("sleep 4712 >/dev/null 2>&1 & hostname", on_output=lambda text: print(text, end="", flush=True))
env.execute("sleep 4713")
"""


def test_processes_in_a_container_end_with_the_program(engine: docker.DockerClient) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, PYTHON_IMAGE], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        container = engine.containers.get(program.stdout.readline().strip())
        assert wait_until(lambda: "sleep 4713" in str(container.top()), 30)
        program.kill()
    try:
        assert wait_until(lambda: not is_running(container), 30)  # takes 1.1 s
    finally:
        with contextlib.suppress(APIError):  # a gc of another test may remove it
            container.remove(force=True)


def is_running(container: Container) -> bool:
    with contextlib.suppress(APIError):
        return "sleep 471" in str(container.top())
    return False
