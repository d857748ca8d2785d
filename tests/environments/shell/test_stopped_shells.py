"""Shells stopped (SIGSTOP) by a command or a script."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from code_execution import execute_code
from environments import BaseEnvironment
from environments.conformance.check import running, unique, wait_until
from environments.shell.environment import PersistentShellEnvironment


def shells_of(env: BaseEnvironment) -> list[int]:
    """Return the process ids of the open shells."""
    assert isinstance(env, PersistentShellEnvironment)
    return env.shells.pids()


def stop(pids: list[int]) -> None:
    def are_stopped() -> bool:
        for pid in pids:  # again: an earlier rescue may still be in progress
            os.kill(pid, signal.SIGSTOP)
        return all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in pids)

    assert wait_until(are_stopped, 30)


@pytest.fixture
def started(bash_or_sh: BaseEnvironment) -> Iterator[BaseEnvironment]:
    bash_or_sh.execute("export KEPT=yes")
    bash_or_sh.execute_oneshot("true")
    bash_or_sh.prepare()
    yield bash_or_sh
    for pid in shells_of(bash_or_sh):
        os.kill(pid, signal.SIGCONT)


def test_a_command_for_a_shell_that_was_stopped_runs_once_and_is_no_time_out(
    started: BaseEnvironment, tmp_path: Path
) -> None:
    counted = f"echo $KEPT; echo x >>{tmp_path}/runs"
    beside = partial(started.execute_oneshot, session_env=True)
    for run in (started.execute, beside):
        stop(shells_of(started))
        result = run(counted, timeout=30)
        assert (result.output, result.exit_code) == ("yes\n", 0)
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_a_time_out_ends_its_command_when_all_shells_are_stopped_meanwhile(started: BaseEnvironment) -> None:
    for run in (started.execute, started.execute_oneshot):
        word = unique()
        stopping = f"(sleep .3; kill -STOP {' '.join(map(str, shells_of(started)))}) &"
        result = run(f"{stopping} sh -c ': {word}; sleep 1000; :'", timeout=1)
        assert result.timed_out and result.duration_seconds < 20  # less than the 30 s limit of a wait for a shell
        assert running(started, word) == 0
    assert started.execute("echo $KEPT").output in ("yes\n", "\n")


STOPS_SHELLS = """
import os, signal, time
for pid in {pids}:
    os.kill(pid, signal.SIGSTOP)
time.sleep({seconds})
"""


def test_a_script_that_stops_all_shells_ends_at_its_time_out_and_the_next_command_runs(env: BaseEnvironment) -> None:
    env.execute("export KEPT=yes")
    assert execute_code("", env=env, tools={}).status == "success"
    for seconds in (1000, 0):  # the second script waits for its own, stopped shell
        code = STOPS_SHELLS.format(pids=shells_of(env), seconds=seconds)
        result = execute_code(code, env=env, tools={}, timeout=2)
        assert result.status == "timeout" or seconds == 0
        assert result.duration_seconds < 12
        assert env.execute("echo $KEPT", timeout=30).output == "yes\n"
