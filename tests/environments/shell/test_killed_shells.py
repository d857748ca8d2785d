"""Shells that somebody else kills."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from environments import BaseEnvironment, CommandResult, EnvironmentLostError


@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_a_command_runs_once_although_its_shell_was_killed_while_it_was_idle(way: str, env: BaseEnvironment) -> None:
    run = getattr(env, way)
    pid = int(run("echo $$").output)
    os.kill(pid, signal.SIGSTOP)  # so that it does not read what it is sent
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(run("echo ran >>ran; cat", stdin="given")))
    thread.start()
    thread.join(0.3)
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert [(result.output, result.exit_code) for result in results] == [("given", 0)]
    assert env.read_bytes("ran") == b"ran\n"
    assert int(run("echo $$").output) != pid
    assert run("kill -9 $$").exit_code == 137  # one that kills its shell itself


def test_a_background_command_whose_shell_is_killed_is_lost_or_runs_and_the_next_one_runs(env: BaseEnvironment) -> None:
    pid = env.execute_oneshot("echo $$").output.strip()
    env.execute(f"kill -9 {pid}")
    with contextlib.suppress(EnvironmentLostError):  # where its end was not known yet
        assert env.start("true").wait(60) == 0
    process = env.start("cat")
    process.write("on\n")
    process.close_stdin()
    assert process.wait(60) == 0
    assert process.read() == "on\n"


def test_a_large_state_is_reported_whole_by_a_shell_that_ends(env: BaseEnvironment) -> None:
    # The state takes a shell longer to report than its end takes to arrive.
    env.execute("for i in {1..1500}; do export V$i=$i; done; export KEPT=kept; exit 0")
    assert env.execute("echo $KEPT $V1500").output == "kept 1500\n"
