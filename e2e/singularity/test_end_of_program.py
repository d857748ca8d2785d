"""Processes in an instance after a signal killed the program. `hermes-env gc` removes the instance itself."""

from __future__ import annotations

import subprocess
import sys

from targets.engines import require_singularity
from targets.processes import processes_with

from environments.conformance.check import unique, wait_until

PROGRAM = """
import sys
from environments import create_environment
env, word = create_environment("singularity", image=sys.argv[1]), sys.argv[2]
runs = "{}; echo on; exec -a %s sleep 1000" % word
env.prepare()
env.start(["bash", "-c", runs.format("trap '' TERM")]).expect("on", 30)
print(env.target.id, flush=True)
env.execute(["bash", "-c", runs.format(":")], on_output=lambda _: print("on", flush=True))
"""


def test_processes_in_an_instance_end_with_the_program() -> None:
    word, images = unique(), require_singularity()
    command = [sys.executable, "-c", PROGRAM, str(images.sandbox), word]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        instance = program.stdout.readline().strip()
        assert program.stdout.readline() == "on\n"
        assert wait_until(lambda: len(processes_with(word)) >= 3, 30)  # the program and its children
        program.kill()
        program.wait()
    try:
        assert wait_until(lambda: not processes_with(word), 30)  # takes 1.1 s
    finally:
        subprocess.run([images.program, "instance", "stop", instance], capture_output=True, check=False)
