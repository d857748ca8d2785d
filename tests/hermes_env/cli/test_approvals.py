"""Approval rules of config.yaml on the command line: only a user at a terminal is asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from targets.command_line import CommandLine, RunAtTerminal


@pytest.fixture(autouse=True)
def _rules(configure: Callable[[str], None]) -> None:
    configure("approvals: {destructive_commands: ask, scripts: ask}")


def test_a_harmless_command_is_not_asked_about(hermes_env: CommandLine) -> None:
    assert hermes_env("exec", "--", "echo ran").stdout == "ran\n"


def test_without_a_terminal_a_command_is_denied_with_the_reason(hermes_env: CommandLine) -> None:
    for words in (("exec", "--", "rm -rf ."), ("run", "-")):
        done = hermes_env(*words, stdin="print('ran')")
        assert (done.stdout, done.returncode) == ("", 126)
        assert "needs approval" in done.stderr and "no terminal to ask on" in done.stderr


def test_yes_approves_a_command_and_all_other_answers_deny_it(run_at_terminal: RunAtTerminal, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for typed, code in ((b"n\n", 126), (b"\n", 126), (b"what?\n", 126), (b"\x04", 126), (b"y\n", 0), (b"YES\n", 0)):
        (work / "file").touch()
        shown, ended_with = run_at_terminal("exec", "--cwd", str(work), "--", "rm -rf ./*", typed=typed)
        assert "it removes the whole working directory" in shown and "rm -rf ./*" in shown
        assert (ended_with, (work / "file").exists()) == (code, code == 126), typed


def test_a_script_is_asked_about_too(run_at_terminal: RunAtTerminal, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('r' + 'an')")
    shown, code = run_at_terminal("run", "script.py", typed=b"y\n")
    assert "print('r' + 'an')" in shown and "\nran\n" in shown
    assert code == 0


def test_a_commands_terminal_controls_cannot_hide_the_question(run_at_terminal: RunAtTerminal) -> None:
    shown, _ = run_at_terminal("exec", "--", "rm -rf . # \x1b[2J\x1b[1A \u202e harmless", typed=b"n\n")
    assert "\x1b[2J" not in shown.split("Go on?")[0]
    assert "\\x1b[2J" in shown and "\\u202e" in shown
