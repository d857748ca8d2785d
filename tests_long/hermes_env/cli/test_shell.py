"""`hermes-env shell` at a real pseudo-terminal: the rarer ways in and out."""

from __future__ import annotations

import signal
import sys
import termios
from pathlib import Path

import pytest
from targets import per_command_local
from targets.command_line import Opens
from targets.processes import all_gone, having
from targets.silent_server import silent_server

from environments.conformance.check import wait_until

PROMPT = r"[$#] "


def test_every_byte_goes_both_ways(opens: Opens) -> None:
    person = opens("shell", "stty raw -echo; echo go; head -c 260 | od -An -v -tx1 -w260")
    person.sees("go")
    typed = "".join(map(chr, range(128))) * 2 + "\u00e9\u00fc"
    person.type(typed)
    assert person.sees("( [0-9a-f]{2}){260}") == "".join(f" {byte:02x}" for byte in typed.encode())
    assert person.sees_the_end() == 0


def test_a_command_can_stand_in_place_of_the_shell(opens: Opens) -> None:
    person = opens("shell", "sh", "-c", 'test -t 0 && test -t 1 && echo "on a $1"; exit 5', "sh", "two  words")
    person.sees("on a two  words\r\n")
    assert person.sees_the_end() == 5


def test_it_is_the_shell_of_the_user_and_a_login_shell_where_that_is_asked_for(opens: Opens, tmp_path: Path) -> None:
    (tmp_path / "own shell").write_text("#!/bin/sh\necho own shell, $# words: $1\n")
    (tmp_path / "own shell").chmod(0o755)
    for words, said in (((), "own shell, 0 words"), (("--set", "login_shell=true"), "own shell, 1 words: -l")):
        person = opens("shell", *words, SHELL=str(tmp_path / "own shell"))
        person.sees(said)
        assert person.sees_the_end() == 0


@pytest.mark.parametrize("command", ["shell", "exec"])
def test_a_window_that_shows_nothing_more_delays_no_end(opens: Opens, command: str, nap: str) -> None:
    person = opens(command, "--", f"printf 'odd'; sh -c 'while :; do echo aaa; done' {nap}")
    person.sees("odd")
    assert wait_until(lambda: person.is_full, 60), "nobody looks at it"
    person.program.send_signal(signal.SIGTERM)
    assert person.program.wait(60) == 130
    assert person.has_terminal_as_it_was
    assert all_gone(nap)


def test_a_window_that_is_shut_ends_it(opens: Opens, nap: str) -> None:
    person = opens("shell")
    person.type(f"sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.leave()
    person.program.wait(60)
    assert all_gone(nap)


def test_a_shell_that_is_killed_says_so(opens: Opens) -> None:
    person = opens("shell")
    person.type("printf '\\033[?1000h'; kill -9 $$\r")
    assert person.sees_the_end() == 137
    assert person.has_terminal_as_it_was
    person.sees(r"\x1b\[\?1000l")


def test_a_stop_and_a_continuation_leave_it_as_it_was(opens: Opens) -> None:
    person = opens("shell")
    person.sees(PROMPT)
    raw = person.settings()
    person.program.send_signal(signal.SIGSTOP)
    person.set(person.found_settings)  # as the user's shell does when the job stops
    person.resize(15, 51)
    person.program.send_signal(signal.SIGCONT)
    assert wait_until(lambda: person.settings() == raw, 60)
    person.type("stty size; exit\r")
    person.sees("15 51\r\n")
    assert person.sees_the_end() == 0
    assert person.has_terminal_as_it_was


def test_control_c_ends_a_start(opens: Opens) -> None:
    with silent_server() as server:
        away = ("-b", "ssh", "--set", "host=127.0.0.1", "--set", f"port={server.port}", "--set", "user=nobody")
        person = opens("shell", *away)
        assert server.reached.wait(60)
        person.type("\x03")
        assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    assert "Traceback" not in person.all.decode()


def test_a_person_is_asked_where_a_rule_says_so(opens: Opens, configure) -> None:
    configure("approvals: {ask: [bash]}\n")
    for typed, code in (("y\nexit 4\r", 4), ("n\n", 126)):
        person = opens("shell")
        person.sees(r"Go on\? \[y/N\] ")
        person.type(typed)
        assert person.sees_the_end() == code


def test_a_backend_without_terminals_says_so(opens: Opens) -> None:
    tests = str(Path(per_command_local.__file__).parents[1])
    person = opens("shell", "-b", "targets.per_command_local:PerCommandLocal", PYTHONPATH=tests)
    person.sees("has no pty")
    assert person.sees_the_end() == 125
    assert person.has_terminal_as_it_was


def test_an_error_gives_the_terminal_back(opens: Opens, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from hermes_env.cli import shell\n"
        "from hermes_env.cli import main\n"
        "def broken(*_): raise OSError('a fault')\n"
        "shell.InputPump = broken\n"
        "import sys; sys.argv[:] = ['hermes-env', 'shell']\n"
        "main()\n"
    )
    person = opens(program=(sys.executable, str(broken)))
    person.sees("a fault")
    assert person.sees_the_end() == 1
    assert person.has_terminal_as_it_was
    assert person.settings()[3] & termios.ECHO
