"""Commands on another machine's engine when the program ends by a signal, and when only the link drops."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from docker.errors import APIError
from targets.engines import PYTHON_IMAGE, require_docker, require_singularity
from targets.processes import processes_with
from targets.ssh_server import SSHServer

from environments import create_environment
from environments.conformance.check import unique, wait_until

PROGRAM = """
import json, sys
from environments import create_environment
settings, word = json.loads(sys.argv[1]), sys.argv[2]
env = create_environment(**settings)
runs = "{}; echo on; exec -a %s sleep 1000" % word
env.prepare()
print(env.target.id, flush=True)
env.start(["bash", "-c", runs.format("trap '' TERM")]).expect("on", 30)
env.execute(["bash", "-c", runs.format(":")], on_output=lambda _: print("on", flush=True))
"""


def docker(left: str | None = None) -> dict[str, str]:
    """Return the settings, and remove a program's leftover."""
    # A gc of another test may have removed the container.
    with contextlib.closing(require_docker()) as engine, contextlib.suppress(APIError):
        if left:
            engine.containers.get(left).remove(force=True)
    return {"env": "docker", "image": PYTHON_IMAGE}


def singularity(left: str | None = None) -> dict[str, str]:
    """Return the settings, and remove a program's leftover."""
    images = require_singularity()
    if left:
        subprocess.run([images.program, "instance", "stop", left], capture_output=True, check=False)
    return {"env": "singularity", "image": str(images.sandbox)}


Engine = Callable[..., dict[str, str]]


@pytest.mark.parametrize("engine", [docker, singularity])
def test_commands_end_with_the_program(engine: Engine, server: SSHServer) -> None:
    word, settings = unique(), engine() | server.over
    command = [sys.executable, "-c", PROGRAM, json.dumps(settings), word]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        target = program.stdout.readline().strip()
        assert program.stdout.readline() == "on\n"
        assert wait_until(lambda: len(processes_with(word)) >= 3, 30)  # this program, and its children
        program.kill()
        program.wait()
    try:
        assert wait_until(lambda: not processes_with(word), 30)  # takes 2.9 s
    finally:
        engine(target)


@pytest.mark.parametrize("engine", [docker, singularity])
def test_a_background_process_outlives_a_dropped_link(engine: Engine, server: SSHServer) -> None:
    word = unique()
    with create_environment(**engine(), **server.over) as env:
        env.prepare()
        env.execute(f"(exec -a {word} sleep 1000) >/dev/null 2>&1 &")
        assert wait_until(lambda: len(processes_with(word)) == 1, 30)
        for _ in range(2):
            server.kill_connections()
            time.sleep(4)  # by then, the end of a program would have ended the command
            assert len(processes_with(word)) == 1
        env.execute("true")
