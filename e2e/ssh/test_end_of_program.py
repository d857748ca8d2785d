"""Processes on a host after a signal killed the program, and after a dropped link."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from targets.processes import processes_with
from targets.ssh_server import SSHServer

from environments import create_environment
from environments.conformance.check import unique, wait_until

PROGRAM = """
import json, sys
from environments import create_environment
env, word = create_environment("ssh", **json.loads(sys.argv[1])), sys.argv[2]
runs = "{}; echo on; exec -a %s sleep 1000" % word
env.prepare()
env.start(runs.format("trap '' TERM")).expect("on", 30)
env.execute("(exec -a %s sleep 1000) >/dev/null 2>&1 &" % word)
env.execute("env -i setsid bash -c 'exec -a %s sleep 1000' <&- >&- 2>&- 29>&- &" % word)
env.execute(runs.format(":"), on_output=lambda _: print("on", flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_on_a_host_end_with_the_program(server: SSHServer, how: signal.Signals) -> None:
    word = unique()
    command = [sys.executable, "-c", PROGRAM, json.dumps(server.settings), word]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"on\n"
        assert wait_until(lambda: len(processes_with(word)) >= 5, 30)  # the program and its children
        program.send_signal(how)
        program.wait()
        assert wait_until(lambda: not processes_with(word), 30)  # takes 2.9 s


def test_background_processes_outlive_a_dropped_link(server: SSHServer) -> None:
    word = unique()
    with create_environment("ssh", **server.settings) as env:
        env.prepare()
        env.execute(f"(exec -a {word} sleep 1000) >/dev/null 2>&1 &")
        env.start(f"exec -a {word} sleep 1000")
        assert wait_until(lambda: len(processes_with(word)) == 2, 30)
        for _ in range(2):
            server.kill_connections()
            time.sleep(4)  # longer than the host needs to end processes of a dead program
            assert len(processes_with(word)) == 2
        assert env.execute("echo works").output == "works\n"


def test_processes_without_marker_are_ended_by_cleanup(server: SSHServer) -> None:
    word = unique()
    with create_environment("ssh", **server.settings) as env:
        env.execute(f"env -i setsid bash -c 'exec -a {word} sleep 1000' <&- >&- 2>&- 29>&- &")
        env.execute_oneshot(f"env -i setsid bash -c 'exec -a {word} sleep 1000' <&- >&- 2>&- 29>&- &")
        assert wait_until(lambda: len(processes_with(word)) == 2, 30)
    assert wait_until(lambda: not processes_with(word), 2)
