"""What of a target's output reaches the user's terminal, which is a real pseudo-terminal here."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from environments.errors import TerminalError
from hermes_env import cli

OnTerminal = Callable[..., str]
HOSTILE = r"\033]0;owned\007\033]52;c;c3RvbGVu\007\033[2J\033[31mred\033[0m \007end\n"
SHOWN = "\x1b[31mred\x1b[0m ^Gend\r\n"
RAW = "\x1b]0;owned\x07\x1b]52;c;c3RvbGVu\x07\x1b[2J\x1b[31mred\x1b[0m \x07end\r\n"


@pytest.fixture
def on_terminal(variables: dict[str, str], tmp_path: Path) -> OnTerminal:
    """The real command with a terminal for its output and its errors; returns all that the terminal got."""

    def run(*words: str) -> str:
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "hermes_env", *words],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=variables,
            cwd=tmp_path,
        )
        os.close(theirs)
        got = b""
        with contextlib.suppress(OSError):  # what Linux says when the last process has closed a terminal
            while piece := os.read(ours, 65536):
                got += piece
        os.close(ours)
        assert process.wait(30) >= 0
        return got.decode()

    return run


def test_a_command_can_do_nothing_to_the_terminal_but_colour_it(on_terminal: OnTerminal) -> None:
    assert on_terminal("exec", "--", f"printf '{HOSTILE}'") == SHOWN


def test_a_command_may_do_everything_when_asked_to(on_terminal: OnTerminal) -> None:
    assert on_terminal("exec", "--raw", "--", f"printf '{HOSTILE}'") == RAW


def test_a_colour_that_is_left_on_ends_with_the_command(on_terminal: OnTerminal) -> None:
    assert on_terminal("exec", "--", r"printf '\033[31mred'") == "\x1b[31mred\x1b[0m"


def test_a_sequence_that_comes_in_two_pieces_is_harmless_too(on_terminal: OnTerminal) -> None:
    assert (
        on_terminal("exec", "--", r"printf 'a\033]0;ow'; sleep 0.3; printf 'ned\007b\033'; sleep 0.3; printf '[2Jc'")
        == "abc"
    )


def test_a_pipe_gets_every_byte(hermes_env) -> None:
    assert hermes_env("exec", "--", f"printf '{HOSTILE}'").stdout == RAW.replace("\r\n", "\n")


def test_a_script_can_do_nothing_to_the_terminal_either(on_terminal: OnTerminal, tmp_path: Path) -> None:
    code = f"import sys\nprint('{HOSTILE}', end='')\nprint('\\033]0;err\\007failed', file=sys.stderr)\nsys.exit(3)"
    (tmp_path / "script.py").write_text(code)
    shown = on_terminal("run", "script.py")
    assert shown.startswith(f"{SHOWN}failed\r\n")
    assert "owned" not in shown and "\x1b]" not in shown
    assert on_terminal("run", "--raw", "script.py").startswith(f"{RAW}\x1b]0;err\x07failed\r\n")


def test_a_result_as_json_has_no_controls(hermes_env, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(f"print('{HOSTILE}', end='')")
    assert '"output": "red end\\n"' in hermes_env("run", "--json", "script.py").stdout


def test_an_error_shows_no_controls_of_the_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise TerminalError("the shell ended at once: \x1b]0;owned\x07\x1b[2Jno room")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "hermes-env: the shell ended at once: no room\n"
