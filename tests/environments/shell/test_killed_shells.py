"""Shells of ours that somebody else kills."""

from __future__ import annotations

import pytest

from environments import BaseEnvironment, EnvironmentLostError
from environments.shell.shell import Shell


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
