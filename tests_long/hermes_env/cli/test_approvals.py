"""Approval rules of config.yaml on the command line: only the user at the terminal is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from targets.command_line import OpenTerminal


def test_control_c_ends_the_question(
    open_terminal: OpenTerminal, configure: Callable[[str], None], tmp_path: Path
) -> None:
    configure("approvals: {destructive_commands: ask}")
    (tmp_path / "kept").touch()
    user = open_terminal("exec", "--", "rm -rf ./*")
    user.expect(r"\[y/N\]")
    user.type("\x03")
    assert user.wait_for_exit() == 130
    assert (tmp_path / "kept").exists()
