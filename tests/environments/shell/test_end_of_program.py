"""Processes of an environment after a signal killed the program before its cleanup."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from targets.processes import processes_with

from environments.conformance.check import unique, wait_until
from environments.owner import MARKER_VARIABLE
from environments.shell.dialect.commands import arming_watchdog, disarming_watchdog

PROGRAM = """
import sys, threading, time
from environments import create_environment
from code_execution import execute_code
env, word = create_environment("local"), sys.argv[1]
runs = "{}; echo on; exec -a %s sleep 1000" % word
env.start(runs.format("trap '' TERM")).expect("on", 30)
env.execute("(exec -a %s sleep 1000) >/dev/null 2>&1 &" % word)
env.execute("env -i setsid bash -c 'exec -a %s sleep 1000' <&- >&- 2>&- 29>&- &" % word)
script = "import subprocess, time; subprocess.Popen(['bash', '-c', 'exec -a %s sleep 1000']); print(1, flush=True)"
script += "; time.sleep(1000)"
begun = threading.Event()
threading.Thread(target=lambda: execute_code(script % word, env=env, tools={}, on_output=lambda _: begun.set())).start()
begun.wait(60)
while not env.shells.control.idle:  # the spare shell runs the script
    time.sleep(0.01)
env.execute(runs.format(":"), on_output=lambda _: print("on", flush=True))
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_processes_on_this_machine_end_with_the_program(how: signal.Signals) -> None:
    word = unique()
    with subprocess.Popen([sys.executable, "-c", PROGRAM, word], stdout=subprocess.PIPE) as program:
        assert program.stdout
        assert program.stdout.readline() == b"on\n"
        assert wait_until(lambda: len(processes_with(word)) >= 6, 30)  # the program and its children
        program.send_signal(how)
        program.wait()
        assert wait_until(lambda: not processes_with(word), 30)  # takes 1.1 s


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("is_dismissed", [True, False])
def test_a_shell_whose_output_is_closed_ends_the_rest_only_with_its_program(shell: str, is_dismissed: bool) -> None:
    word = unique()
    runs = {**os.environ, MARKER_VARIABLE: f"{word}/1/"}
    sleeper = subprocess.Popen(["sleep", "1000"], env=runs)
    keeper = subprocess.Popen([shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert keeper.stdin and keeper.stdout
    printing = "for i in 1 2 3 4 5 6 7 8 9; do command printf %090000d 0; done\n"
    dismissal = disarming_watchdog("command") if is_dismissed else ""
    with keeper, sleeper:
        keeper.stdin.write((arming_watchdog("command", word, 0) + printing + dismissal).encode())
        keeper.stdin.flush()
        keeper.stdout.read(1)
        keeper.stdout.close()
        keeper.stdin.close()
        keeper.wait()
        assert (sleeper.poll() is None) == is_dismissed
        sleeper.kill()
