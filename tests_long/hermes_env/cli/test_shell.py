"""`hermes-env shell` at a real pseudo-terminal: the rarer ways in and out."""

from __future__ import annotations

import signal
import sys
import termios
from pathlib import Path

import pytest
from targets import per_command_local
from targets.command_line import OpenTerminal
from targets.processes import all_gone, processes_with
from targets.silent_server import silent_server

from environments.conformance.check import wait_until

PROMPT = r"[$#] "


def test_every_byte_goes_both_ways(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell", "stty raw -echo; echo go; head -c 260 | od -An -v -tx1 -w260")
    user.expect("go")
    typed = "".join(map(chr, range(128))) * 2 + "\u00e9\u00fc"
    user.type(typed)
    assert user.expect("( [0-9a-f]{2}){260}") == "".join(f" {byte:02x}" for byte in typed.encode())
    assert user.wait_for_exit() == 0


def test_a_command_can_stand_in_place_of_the_shell(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell", "sh", "-c", 'test -t 0 && test -t 1 && echo "on a $1"; exit 5', "sh", "two  words")
    user.expect("on a two  words\r\n")
    assert user.wait_for_exit() == 5


def test_the_shell_is_the_users_and_a_login_shell_on_request(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    (tmp_path / "own shell").write_text("#!/bin/sh\necho own shell, $# words: $1\n")
    (tmp_path / "own shell").chmod(0o755)
    for words, said in (((), "own shell, 0 words"), (("--set", "login_shell=true"), "own shell, 1 words: -l")):
        user = open_terminal("shell", *words, SHELL=str(tmp_path / "own shell"))
        user.expect(said)
        assert user.wait_for_exit() == 0


@pytest.mark.parametrize("command", ["shell", "exec"])
def test_a_window_that_shows_nothing_more_delays_no_end(open_terminal: OpenTerminal, command: str, nap: str) -> None:
    user = open_terminal(command, "--", f"printf 'odd'; sh -c 'while :; do echo aaa; done' {nap}")
    user.expect("odd")
    assert wait_until(lambda: user.is_full, 60), "nobody looks at it"
    user.program.send_signal(signal.SIGTERM)
    assert user.program.wait(60) == 130
    assert user.has_initial_settings
    assert all_gone(nap)


def test_closing_the_terminal_window_ends_the_shell(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal("shell")
    user.type(f"sleep {nap}\r")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    user.leave()
    user.program.wait(60)
    assert all_gone(nap)


def test_a_killed_shell_restores_the_terminal_and_exits_with_137(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell")
    user.type("printf '\\033[?1000h'; kill -9 $$\r")
    assert user.wait_for_exit() == 137
    assert user.has_initial_settings
    user.expect(r"\x1b\[\?1000l")


def test_a_stop_and_a_continuation_leave_it_as_it_was(open_terminal: OpenTerminal) -> None:
    user = open_terminal("shell")
    user.expect(PROMPT)
    raw = user.settings()
    user.program.send_signal(signal.SIGSTOP)
    user.set(user.initial_settings)  # as the user's shell does when the job stops
    user.resize(15, 51)
    user.program.send_signal(signal.SIGCONT)
    assert wait_until(lambda: user.settings() == raw, 60)
    user.type("stty size; exit\r")
    user.expect("15 51\r\n")
    assert user.wait_for_exit() == 0
    assert user.has_initial_settings


def test_control_c_ends_a_start(open_terminal: OpenTerminal) -> None:
    with silent_server() as server:
        away = ("-b", "ssh", "--set", "host=127.0.0.1", "--set", f"port={server.port}", "--set", "user=nobody")
        user = open_terminal("shell", *away)
        assert server.reached.wait(60)
        user.type("\x03")
        assert user.wait_for_exit() == 130
    assert user.has_initial_settings
    assert "Traceback" not in user.all.decode()


def test_a_person_is_asked_where_a_rule_says_so(open_terminal: OpenTerminal, configure) -> None:
    configure("approvals: {ask: [bash]}\n")
    for typed, code in (("y\nexit 4\r", 4), ("n\n", 126)):
        user = open_terminal("shell")
        user.expect(r"Go on\? \[y/N\] ")
        user.type(typed)
        assert user.wait_for_exit() == code


def test_a_backend_without_terminals_is_an_error(open_terminal: OpenTerminal) -> None:
    tests = str(Path(per_command_local.__file__).parents[1])
    user = open_terminal("shell", "-b", "targets.per_command_local:PerCommandLocal", PYTHONPATH=tests)
    user.expect("has no pty")
    assert user.wait_for_exit() == 125
    assert user.has_initial_settings


def test_an_error_restores_the_terminal(open_terminal: OpenTerminal, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from hermes_env.cli import shell\n"
        "from hermes_env.cli import main\n"
        "def broken(*_): raise OSError('a fault')\n"
        "shell.InputPump = broken\n"
        "import sys; sys.argv[:] = ['hermes-env', 'shell']\n"
        "main()\n"
    )
    user = open_terminal(program=(sys.executable, str(broken)))
    user.expect("a fault")
    assert user.wait_for_exit() == 1
    assert user.has_initial_settings
    assert user.settings()[3] & termios.ECHO
