"""A script that ignores TERM is killed after the grace period, with all its descendants."""

from __future__ import annotations

from targets.processes import processes_with

from code_execution import execute_code
from environments import BaseEnvironment

STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "{0}"], start_new_session=True)
print("begun")
time.sleep(100)
"""


def test_a_timed_out_script_that_ignores_the_signal_is_ended(env: BaseEnvironment, nap: str) -> None:
    result = execute_code(STUBBORN.format(nap), env=env, timeout=8)  # Python starts in less, also under load
    assert (result.status, result.exit_code) == ("timeout", 124)
    assert result.output == "begun\nScript timed out after 8s and was killed."
    assert processes_with(nap) == []
