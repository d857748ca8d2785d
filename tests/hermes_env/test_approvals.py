"""The rules of config.yaml on the command line: the person at the terminal is asked, and nobody else is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

At = Callable[..., "tuple[str, int]"]


@pytest.fixture(autouse=True)
def _rules(variables: dict[str, str]) -> None:
    home = Path(variables["HERMES_HOME"])
    home.mkdir()
    (home / "config.yaml").write_text("approvals: {destructive_commands: ask, scripts: ask}")


@pytest.fixture
def at_terminal(variables: dict[str, str], tmp_path: Path) -> Iterator[At]:
    """Runs the real command on a terminal, types something once it is asked, and returns what is shown."""
    opened: list[int] = []

    def run(*words: str, typed: bytes) -> tuple[str, int]:
        ours, theirs = pty.openpty()
        opened.append(ours)
        command = ["setsid", "--ctty", sys.executable, "-m", "hermes_env", *words]
        with subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, cwd=tmp_path
        ) as process:
            os.close(theirs)
            shown = b""
            while piece := _read(ours):
                shown += piece
                if b"[y/N]" in piece:
                    os.write(ours, typed)
            return shown.decode().replace("\r\n", "\n"), process.wait(60)

    yield run
    for descriptor in opened:
        os.close(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 10_000)
    except OSError:  # of a terminal that nobody has open any more
        return b""


def test_a_harmless_command_is_not_asked_about(hermes_env) -> None:
    assert hermes_env("exec", "--", "echo ran").stdout == "ran\n"


@pytest.mark.parametrize("words", [("exec", "--", "rm -rf ."), ("run", "-")])
def test_without_a_terminal_it_is_denied_and_says_so(hermes_env, words: tuple[str, ...]) -> None:
    done = hermes_env(*words, stdin="print('ran')")
    assert done.stdout == ""
    assert "needs approval" in done.stderr
    assert "no terminal to ask on" in done.stderr
    assert done.returncode == 126


@pytest.mark.parametrize("typed", [b"n\n", b"\n", b"what?\n", b"\x04"])
def test_all_answers_but_yes_deny(at_terminal: At, tmp_path: Path, typed: bytes) -> None:
    (tmp_path / "kept").touch()
    shown, code = at_terminal("exec", "--", "rm -rf ./*", typed=typed)
    assert "it removes the whole working directory" in shown
    assert "rm -rf ./*" in shown
    assert code == 126
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize("typed", [b"y\n", b"YES\n"])
def test_yes_lets_it_run(at_terminal: At, tmp_path: Path, typed: bytes) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "gone").touch()
    _, code = at_terminal("exec", "--cwd", str(tmp_path / "work"), "--", "rm -rf ./*", typed=typed)
    assert code == 0
    assert not (tmp_path / "work" / "gone").exists()


def test_a_script_is_asked_about_too(at_terminal: At, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('r' + 'an')")
    shown, code = at_terminal("run", "script.py", typed=b"y\n")
    assert "print('r' + 'an')" in shown
    assert "\nran\n" in shown
    assert code == 0


def test_control_c_ends_the_question(at_terminal: At, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    _, code = at_terminal("exec", "--", "rm -rf ./*", typed=b"\x03")
    assert code == 130
    assert (tmp_path / "kept").exists()


def test_what_is_shown_cannot_hide_what_is_asked(at_terminal: At) -> None:
    shown, _ = at_terminal("exec", "--", "rm -rf . # \x1b[2J\x1b[1A \u202e harmless", typed=b"n\n")
    assert "\x1b[2J" not in shown.split("Go on?")[0]
    assert "\\x1b[2J" in shown
    assert "\\u202e" in shown
