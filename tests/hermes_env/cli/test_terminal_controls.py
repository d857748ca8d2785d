"""Terminal controls in a target's output, on a real pseudo-terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from targets.command_line import CommandLine, in_this_process, terminal_shown

from environments.errors import TerminalError
from hermes_env import cli

OnTerminal = Callable[..., str]
HOSTILE = r"\033]0;owned\007\033]52;c;c3RvbGVu\007\033[2J\033[31mred\033[0m \007end\n"
SHOWN = "\x1b[31mred\x1b[0m ^Gend\r\n"
RAW = "\x1b]0;owned\x07\x1b]52;c;c3RvbGVu\x07\x1b[2J\x1b[31mred\x1b[0m \x07end\r\n"


@pytest.fixture
def on_terminal(variables: dict[str, str], tmp_path: Path) -> OnTerminal:
    """Runs the command line with a terminal as standard output and error; returns the terminal's data."""

    def run(*words: str) -> str:
        with terminal_shown() as (terminal, shown), Path("/dev/null").open("rb") as nothing:
            in_this_process(words, variables, tmp_path, nothing, terminal, terminal)
            return shown()

    return run


def test_a_command_can_do_nothing_to_the_terminal_but_colour_it(
    on_terminal: OnTerminal, hermes_env: CommandLine
) -> None:
    assert on_terminal("exec", "--", f"printf '{HOSTILE}'") == SHOWN
    assert on_terminal("exec", "--", r"printf '\033[31mred'") == "\x1b[31mred\x1b[0m", "the colour ends with it"
    in_pieces = r"printf 'a\033]0;ow'; sleep 0.1; printf 'ned\007b\033'; sleep 0.1; printf '[2Jc'"
    assert on_terminal("exec", "--", in_pieces) == "abc"


def test_a_command_may_do_everything_when_asked_to_or_to_what_is_no_terminal(
    on_terminal: OnTerminal, hermes_env: CommandLine
) -> None:
    assert on_terminal("exec", "--raw", "--", f"printf '{HOSTILE}'") == RAW
    assert hermes_env("exec", "--", f"printf '{HOSTILE}'").stdout == RAW.replace("\r\n", "\n")


def test_a_script_can_do_nothing_to_the_terminal_either(
    on_terminal: OnTerminal, hermes_env: CommandLine, tmp_path: Path
) -> None:
    code = f"import sys\nprint('{HOSTILE}', end='')\nprint('\\033]0;err\\007failed', file=sys.stderr)\nsys.exit(3)"
    (tmp_path / "script.py").write_text(code)
    shown = on_terminal("run", "script.py")
    assert shown.startswith(f"{SHOWN}failed\r\n")
    assert "owned" not in shown and "\x1b]" not in shown
    assert on_terminal("run", "--raw", "script.py").startswith(f"{RAW}\x1b]0;err\x07failed\r\n")
    assert '"output": "red end\\n' in hermes_env("run", "--json", "script.py").stdout


def test_an_error_shows_no_controls_of_the_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise TerminalError("the shell ended at once: \x1b]0;owned\x07\x1b[2Jno room")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "hermes-env: the shell ended at once: no room\n"
