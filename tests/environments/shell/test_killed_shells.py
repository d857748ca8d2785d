"""Shells killed or stopped from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import threading

import pytest

from environments import BaseEnvironment, CommandResult, EnvironmentLostError
from environments.shell.environment import PersistentShellEnvironment


@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_a_command_runs_once_although_its_shell_was_killed_while_it_was_idle(way: str, env: BaseEnvironment) -> None:
    run = getattr(env, way)
    pid = int(run("echo $$").output)
    os.kill(pid, signal.SIGSTOP)  # a stopped shell does not read its input
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(run("echo ran >>ran; cat", stdin="given")))
    thread.start()
    thread.join(0.3)
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert [(result.output, result.exit_code) for result in results] == [("given", 0)]
    assert env.read_bytes("ran") == b"ran\n"
    assert int(run("echo $$").output) != pid
    assert run("kill -9 $$").exit_code == 137  # the command kills its own shell


def test_an_internal_command_is_sent_to_another_shell_if_its_own_was_killed_while_it_was_idle(
    env: PersistentShellEnvironment,
) -> None:
    pid = int(env.run_control("echo $$").output)
    os.kill(pid, signal.SIGSTOP)
    outputs: list[str] = []
    thread = threading.Thread(target=lambda: outputs.append(env.run_control("echo ran >>ran; echo $$").output))
    thread.start()
    thread.join(0.3)
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert outputs and int(outputs[0]) != pid
    assert env.run_control("cat ran; rm ran").output == "ran\n"


def test_a_command_is_ended_although_the_shell_that_ends_it_was_killed_while_it_was_idle(
    env: PersistentShellEnvironment,
) -> None:
    env.execute("true")  # also opens the control shell
    pid = int(env.run_control("echo $$").output)
    os.kill(pid, signal.SIGSTOP)
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(env.execute("sleep 100", timeout=0.1)))
    thread.start()
    thread.join(0.5)
    os.kill(pid, signal.SIGKILL)
    thread.join(60)
    assert [(result.timed_out, result.survivors) for result in results] == [(True, ())]


def test_a_background_command_whose_shell_is_killed_is_lost_or_runs_and_the_next_one_runs(env: BaseEnvironment) -> None:
    pid = env.execute_oneshot("echo $$").output.strip()
    env.execute(f"kill -9 {pid}")
    with contextlib.suppress(EnvironmentLostError):  # if the shell's end was not known yet
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


@pytest.mark.parametrize("limit", [0.3, 60])
@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_a_stopped_shell_goes_on_with_the_next_command(way: str, limit: float, bash_or_sh: BaseEnvironment) -> None:
    run = getattr(bash_or_sh, way)
    pid = int(run("x=plain; echo $$").output)
    os.kill(pid, signal.SIGSTOP)
    result = run("echo ran | tee -a ran; echo $x$$", timeout=limit)
    assert (result.output, result.timed_out) == (f"ran\n{'plain' if way == 'execute' else ''}{pid}\n", False)
    assert bash_or_sh.read_bytes("ran") == b"ran\n"


def test_the_limit_of_a_command_counts_from_its_beginning(env: BaseEnvironment) -> None:
    os.kill(int(env.execute("echo $$").output), signal.SIGSTOP)
    result = env.execute("echo began; sleep 1000; echo never", timeout=0.5)
    assert (result.output, result.timed_out) == ("began\n", True)


def test_a_stopped_shell_with_a_background_child_goes_on(env: BaseEnvironment) -> None:
    pid = int(env.execute("x=plain; (sleep 1000; echo noise) & echo $$").output)
    os.kill(pid, signal.SIGSTOP)
    assert env.execute("echo $x$$", timeout=60).output == f"plain{pid}\n"


def test_a_stopped_shell_starts_a_background_command(env: BaseEnvironment) -> None:
    os.kill(int(env.execute_oneshot("echo $$").output), signal.SIGSTOP)
    process = env.start("echo on", stdin="none")
    assert process.wait(60) == 0
    assert process.read() == "on\n"


def test_a_shell_that_does_not_begin_a_command_is_replaced_and_the_command_runs_once(
    bash_or_sh: BaseEnvironment,
) -> None:
    env = bash_or_sh
    pid = env.execute("export KEPT=kept; echo $$").output
    shell = env.session_of_execute._shell
    shell.send_internal("sleep 1000\n")
    result = env.execute("echo $KEPT | tee -a ran; echo $$", timeout=60)
    assert result.output.startswith("kept\n")
    assert result.output != f"kept\n{pid}"
    assert "replaced" in result.note
    assert env.read_bytes("ran") == b"kept\n"
