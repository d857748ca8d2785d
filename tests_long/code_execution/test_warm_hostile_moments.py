"""Ends at moments that nobody waits for: of a server, of an environment, and of the process that both belong to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import targets
from targets.backends import docker
from targets.processes import all_gone, is_dead
from targets.ready_python import is_forked, server_of

from code_execution import execute_code
from environments import BaseEnvironment, EnvironmentLostError, create_environment
from environments.conformance.check import wait_until
from environments.local import LocalEnvironment

OWNER = """
import time
from environments import create_environment
from targets.ready_python import server_of
env = create_environment("local", cwd="/")
server = server_of(env)
print(server.pid, server.directory, flush=True)
time.sleep(1000)
"""


def test_a_script_runs_once_at_whatever_moment_its_server_is_killed(env: BaseEnvironment) -> None:
    for moment in range(5):
        killing = threading.Timer(moment * 0.001, os.kill, (server_of(env).pid, signal.SIGKILL))
        killing.start()
        result = execute_code("with open('runs', 'a') as file: file.write('x')", env=env)
        killing.join()
        assert result.status == "success", result
    assert execute_code("print(open('runs').read())", env=env).output == "xxxxx\n"


def test_nothing_is_left_of_a_server_that_starts_as_its_environment_ends(tmp_path: Path) -> None:
    for _ in range(3):
        with create_environment("local", cwd=str(tmp_path)) as env:
            execute_code("pass", env=env)
            scratch = Path(env.internal.scratch_directory())
        assert not scratch.exists()
        assert all_gone(scratch.name)


def test_gc_ends_a_server_whose_owner_was_killed(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(Path(targets.__file__).parents[1])}
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, env=variables, text=True) as owner:
        assert owner.stdout
        pid, directory = owner.stdout.readline().split()
        owner.kill()
    owned = Path(directory).parent.name.split("-", 1)[1].rpartition("-")[0]
    for orphan in LocalEnvironment.find_orphans():
        if owned in orphan.description:
            orphan.remove()
    assert wait_until(lambda: is_dead(int(pid)))
    assert not Path(directory).parent.exists()


def test_scripts_are_forked_again_after_one_that_has_killed_all_there_is(tmp_path: Path) -> None:
    with docker(tmp_path) as subject, subject.make() as env:
        server_of(env)
        with pytest.raises(EnvironmentLostError):
            execute_code("import os; os.kill(-1, 9)", env=env)
        server_of(env)
        assert is_forked(env)
