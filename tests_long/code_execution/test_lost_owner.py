"""A script and its supervisor end when their owner is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import targets
from targets.engines import PYTHON_IMAGE, require_docker
from targets.processes import processes_with

from environments.conformance.check import wait_until
from environments.docker import DockerEnvironment
from environments.local import LocalEnvironment

OWNER = """
import sys
from code_execution import execute_code
from environments import create_environment
backend, transport, nap, image = sys.argv[1:]
env = create_environment(backend, **({"image": image} if backend == "docker" else {"cwd": "/"}))
code = f'''
import os, subprocess, hermes_tools
subprocess.Popen(["sleep", "{nap}"], start_new_session=True)
hermes_tools.say(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.execvp("sleep", ["sleep", "{nap}"])
'''
execute_code(code, env=env, tools={"say": lambda place: print(env.id, place, flush=True)}, transport=transport)
"""


@pytest.mark.parametrize(
    ("backend", "transport"),
    [("local", "socket"), ("local", "relay"), ("local", "file"), ("docker", "relay"), ("docker", "file")],
)
def test_nothing_is_left_of_a_script_whose_owner_was_killed(backend: str, transport: str, nap: str) -> None:
    if backend == "docker":
        require_docker().close()
    variables = {**os.environ, "PYTHONPATH": str(Path(targets.__file__).parents[2])}
    argv = [sys.executable, "-c", OWNER, backend, transport, nap, PYTHON_IMAGE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=variables, text=True) as owner:
        assert owner.stdout
        _, place = owner.stdout.readline().split()
        assert len(processes_with(nap)) >= 2
        owner.kill()
    environment = DockerEnvironment if backend == "docker" else LocalEnvironment
    for target in environment.list_targets():
        if target.pid == owner.pid and target.use == "orphan":
            target.collect()
    assert wait_until(lambda: processes_with(nap) == [], 30)
    assert not Path(place).exists() or backend == "docker"
