"""Approval rules of config.yaml on the command line: only the person at the terminal is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from targets.command_line import Opens


def test_control_c_ends_the_question(opens: Opens, configure: Callable[[str], None], tmp_path: Path) -> None:
    configure("approvals: {destructive_commands: ask}")
    (tmp_path / "kept").touch()
    person = opens("exec", "--", "rm -rf ./*")
    person.sees(r"\[y/N\]")
    person.type("\x03")
    assert person.sees_the_end() == 130
    assert (tmp_path / "kept").exists()
