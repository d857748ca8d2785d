"""Shells that somebody else kills."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from environments import BaseEnvironment, CommandResult


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


def test_a_background_command_whose_shell_is_killed_leaves_the_next_one_its_own(env: BaseEnvironment) -> None:
    pid = env.execute_oneshot("echo $$").output.strip()
    env.execute(f"kill -9 {pid}")
    process = env.start("cat")
    process.write("on\n")
    process.close_stdin()
    assert process.wait(60) == 0
    assert process.read() == "on\n"


def test_a_large_state_is_reported_whole_by_a_shell_that_is_killed_behind_it(env: BaseEnvironment) -> None:
    many = "for i in {1..1500}; do export V$i=$i; done"  # which takes a shell longer to report than its end to arrive
    env.execute(f"{many}; export KEPT=kept; kill -9 $$")
    assert env.execute("echo $KEPT").output in ("\n", "kept\n")
    env.execute(f"{many}; export KEPT=kept; exit 0")
    assert env.execute("echo $KEPT $V1500").output == "kept 1500\n"
