"""What runs on a host when the program ends by a signal, and when only the link to it drops."""

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
def test_what_runs_on_a_host_ends_with_the_program(server: SSHServer, how: signal.Signals) -> None:
    word = unique()
    command = [sys.executable, "-c", PROGRAM, json.dumps(server.settings), word]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"on\n"
        assert wait_until(lambda: len(processes_with(word)) >= 5, 30)  # this program, and what it has started
        program.send_signal(how)
        program.wait()
        assert wait_until(lambda: not processes_with(word), 30)  # it takes 2.9 s


def test_what_runs_in_the_background_outlives_a_link_that_drops(server: SSHServer) -> None:
    word = unique()
    with create_environment("ssh", **server.settings) as env:
        env.prepare()
        env.execute(f"(exec -a {word} sleep 1000) >/dev/null 2>&1 &")
        env.start(f"exec -a {word} sleep 1000")
        assert wait_until(lambda: len(processes_with(word)) == 2, 30)
        for _ in range(2):
            server.kill_connections()
            time.sleep(4)  # in which a program that is gone has had it ended
            assert len(processes_with(word)) == 2
        assert env.execute("echo works").output == "works\n"


def test_what_has_shed_all_marks_is_gone_after_cleanup(server: SSHServer) -> None:
    word = unique()
    with create_environment("ssh", **server.settings) as env:
        env.execute(f"env -i setsid bash -c 'exec -a {word} sleep 1000' <&- >&- 2>&- 29>&- &")
        env.execute_oneshot(f"env -i setsid bash -c 'exec -a {word} sleep 1000' <&- >&- 2>&- 29>&- &")
        assert wait_until(lambda: len(processes_with(word)) == 2, 30)
    assert wait_until(lambda: not processes_with(word), 2)
