"""Shells of ours that somebody else kills."""

from __future__ import annotations

import os
import signal

import pytest

from environments import BaseEnvironment, EnvironmentLostError
from environments.shell import shell as shells
from environments.shell.request import Request
from environments.shell.shell import Shell
from environments.shell.target_shells import TargetShells


def test_a_shell_killed_before_a_background_command_began_is_an_environment_lost(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = env.execute_oneshot("echo $$").output.strip()
    env.execute(f"kill -STOP {pid}")
    await_begin = Shell.await_begin

    def be_killed_first(shell: Shell) -> None:
        env.execute(f"kill -9 {pid}")
        await_begin(shell)

    with monkeypatch.context() as patch:
        patch.setattr(Shell, "await_begin", be_killed_first)
        with pytest.raises(EnvironmentLostError, match="not run again"):
            env.start("cat")
    process = env.start("cat")
    process.write("on\n")
    process.close_stdin()
    assert process.wait(60) == 0
    assert process.read() == "on\n"


def test_what_a_shell_reports_is_read_although_its_target_is_lost_before_that(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = "for i in {1..1500}; do export V$i=$i; done"  # which takes a shell longer to report than its end to arrive
    env.execute(f"{many}; export KEPT=kept")
    found = iter([False])
    monkeypatch.setattr(TargetShells, "is_current", lambda shells, shell: next(found, True))
    assert env.execute("echo $KEPT").output == "kept\n"


@pytest.mark.parametrize("way", ["execute", "execute_oneshot"])
def test_a_command_runs_although_its_shell_was_killed_while_it_was_idle(
    way: str, env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = getattr(env, way)
    pid = int(run("echo $$").output)
    os.kill(pid, signal.SIGSTOP)
    send = Shell.send

    def killed_before_it_reads(shell: Shell, request: Request) -> str:
        marker = send(shell, request)
        if shell.pid == pid:
            os.kill(pid, signal.SIGKILL)
        return marker

    with monkeypatch.context() as patch:
        patch.setattr(Shell, "send", killed_before_it_reads)
        patch.setattr(shells, "AT_ONCE", 0)
        result = run("cat", stdin="given")
    assert (result.output, result.exit_code) == ("given", 0)
    assert int(run("echo $$").output) != pid
    assert run("kill -9 $$").exit_code == 137  # one that kills its shell itself
