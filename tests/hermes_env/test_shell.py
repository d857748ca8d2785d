"""`hermes-env shell`, by a person at a real pseudo-terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.engines import MINIMAL_IMAGE, PYTHON_IMAGE, require_docker
from targets.processes import all_gone, having
from targets.pseudo_terminal import Person
from targets.silent_server import silent_server

from environments.conformance.check import wait_until

Opens = Callable[..., Person]
DOCKER = ("-b", "docker", "--set", f"image={PYTHON_IMAGE}")
PROMPT = r"[$#] "


@pytest.fixture
def opens(variables: dict[str, str], tmp_path: Path) -> Iterator[Opens]:
    """Opens a shell, as a person does who has configured none."""
    persons: list[Person] = []

    def open_shell(*words: str, command: str = "shell", **more: str) -> Person:
        if "docker" in words:
            require_docker().close()
        own = {**variables, "HOME": str(tmp_path), "SHELL": "/bin/bash", "TERM": "xterm-256color", **more}
        persons.append(Person([sys.executable, "-m", "hermes_env", command, *words], own, tmp_path))
        return persons[-1]

    yield open_shell
    for person in persons:
        person.close()


on_both = pytest.mark.parametrize("where", [(), DOCKER], ids=["local", "docker"])


@on_both
def test_programs_there_know_the_window_and_the_kind_of_terminal(opens: Opens, where: tuple[str, ...]) -> None:
    person = opens(*where)
    person.sees(PROMPT)
    assert not person.has_terminal_as_it_was
    person.type("stty size; echo $TERM\r")
    person.sees("33 111\r\nxterm-256color\r\n")
    person.type("until stty size | grep '20 66'; do sleep 0.1; done\r")
    person.resize(20, 66)
    person.sees("20 66\r\n")
    person.type("exit 7\r")
    assert person.sees_the_end() == 7
    assert person.has_terminal_as_it_was


@on_both
def test_control_c_and_control_z_are_for_the_command_there(opens: Opens, where: tuple[str, ...], nap: str) -> None:
    person = opens(*where)
    command = f"sh -c 'echo up$((1)); exec sleep {nap}'\r"
    person.type(command)
    person.sees("up1\r\n")
    person.type("\x03")
    person.type("echo code$?\r")
    person.sees("code130\r\n")
    person.type(command)
    person.sees("up1\r\n")
    person.type("\x1a")
    person.sees("Stopped")
    person.type("jobs\r")
    person.sees(rf"\[1\]\+ +Stopped.*{nap}'\r\n")
    person.type("fg\r")
    person.sees(f"exec sleep {nap}'\r\n")
    person.type("\x03")
    person.sees(PROMPT)
    person.type("\x04")
    assert person.sees_the_end() == 130, "control-D ends the shell with the code of its last command"
    assert all_gone(nap)


def test_what_was_left_behind_ends_with_the_session(opens: Opens, nap: str) -> None:
    person = opens()
    person.type(f"nohup sleep {nap} >/dev/null 2>&1 & exit\r")
    assert person.sees_the_end() == 0
    assert all_gone(nap)


def test_every_byte_goes_both_ways(opens: Opens) -> None:
    person = opens("stty raw -echo; echo go; head -c 260 | od -An -v -tx1 -w260")
    person.sees("go")
    typed = "".join(map(chr, range(128))) * 2 + "\u00e9\u00fc"
    person.type(typed)
    assert person.sees("( [0-9a-f]{2}){260}") == "".join(f" {byte:02x}" for byte in typed.encode())
    assert person.sees_the_end() == 0


def test_a_command_can_stand_in_place_of_the_shell(opens: Opens) -> None:
    person = opens("sh", "-c", 'test -t 0 && test -t 1 && echo "on a $1"; exit 5', "sh", "two  words")
    person.sees("on a two  words\r\n")
    assert person.sees_the_end() == 5


def test_where_there_is_no_bash_it_is_sh(opens: Opens) -> None:
    person = opens("-b", "docker", "--set", f"image={MINIMAL_IMAGE}", "--cwd", "/tmp")
    person.type('echo "in $PWD ${BASH_VERSION-without bash}"\r')
    person.sees("in /tmp without bash\r\n")
    person.type("exit 3\r")
    assert person.sees_the_end() == 3


def test_it_is_the_shell_of_the_user_and_a_login_shell_where_that_is_asked_for(opens: Opens, tmp_path: Path) -> None:
    (tmp_path / "own shell").write_text("#!/bin/sh\necho own shell, $# words: $1\n")
    (tmp_path / "own shell").chmod(0o755)
    for words, said in (((), "own shell, 0 words"), (("--set", "login_shell=true"), "own shell, 1 words: -l")):
        person = opens(*words, SHELL=str(tmp_path / "own shell"))
        person.sees(said)
        assert person.sees_the_end() == 0


def test_tilde_dot_at_the_beginning_of_a_line_ends_it(opens: Opens, nap: str) -> None:
    person = opens()
    person.type("echo not~.here\r~~\x15echo ~/x ~+ | tr / .\r")
    person.sees("not~.here\r\n")
    person.sees(r"\.x ")
    person.type(f"trap '' INT QUIT; sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.type("\x03\x04\r~.")
    assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    assert all_gone(nap)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_gives_the_terminal_back(opens: Opens, nap: str, number: int) -> None:
    person = opens()
    person.type(f"printf '\\033[?1049h\\033[?25l\\033[?7l\\033[?7h\\033[31m'; sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.sees(r"\x1b\[31m")
    person.program.send_signal(number)
    assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    shown = person.sees(r"(?s)\x1b\[\?1049l.*")
    assert "\x1b[?25h" in shown and "\x1b[?7" not in shown and "\x1b[0m" in shown, "the screen is as it was, too"
    assert "Traceback" not in person.all.decode()
    assert all_gone(nap)


@pytest.mark.parametrize("command", ["shell", "exec"])
def test_a_window_that_shows_nothing_more_delays_no_end(opens: Opens, command: str, nap: str) -> None:
    person = opens("--", f"printf 'odd'; sh -c 'while :; do echo aaa; done' {nap}", command=command)
    person.sees("odd")
    assert wait_until(lambda: person.is_full, 60), "nobody looks at it"
    person.program.send_signal(signal.SIGTERM)
    assert person.program.wait(60) == 130
    assert person.has_terminal_as_it_was
    assert all_gone(nap)


def test_a_window_that_is_shut_ends_it(opens: Opens, nap: str) -> None:
    person = opens()
    person.type(f"sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.leave()
    person.program.wait(60)
    assert all_gone(nap)


def test_a_shell_that_is_killed_says_so(opens: Opens) -> None:
    person = opens()
    person.type("printf '\\033[?1000h'; kill -9 $$\r")
    assert person.sees_the_end() == 137
    assert person.has_terminal_as_it_was
    person.sees(r"\x1b\[\?1000l")


def test_a_container_that_is_removed_is_an_error_and_gives_the_terminal_back(opens: Opens) -> None:
    person = opens(*DOCKER)
    person.type("echo in $(hostname)\r")
    name = person.sees("in [0-9a-f]{12}").removeprefix("in ")
    subprocess.run(["docker", "rm", "-f", name], check=True, capture_output=True)
    person.sees("\nhermes-env: .*container.*")
    assert person.sees_the_end() == 125
    assert person.has_terminal_as_it_was


def test_a_stop_and_a_continuation_leave_it_as_it_was(opens: Opens) -> None:
    person = opens()
    person.sees(PROMPT)
    raw = person.settings()
    person.program.send_signal(signal.SIGSTOP)
    person.set(person.found_settings)  # as the shell does that sees it stop
    person.resize(15, 51)
    person.program.send_signal(signal.SIGCONT)
    assert wait_until(lambda: person.settings() == raw, 60)
    person.type("stty size; exit\r")
    person.sees("15 51\r\n")
    assert person.sees_the_end() == 0
    assert person.has_terminal_as_it_was


def test_control_c_ends_a_start(opens: Opens) -> None:
    with silent_server() as server:
        person = opens("-b", "ssh", "--set", "host=127.0.0.1", "--set", f"port={server.port}", "--set", "user=nobody")
        assert server.reached.wait(60)
        person.type("\x03")
        assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    assert "Traceback" not in person.all.decode()


def test_a_person_is_asked_where_a_rule_says_so(opens: Opens, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/config.yaml").write_text("approvals: {ask: [bash]}\n")
    person = opens()
    person.sees(r"Go on\? \[y/N\] ")
    person.type("y\n")
    person.type("exit 4\r")
    assert person.sees_the_end() == 4
    person = opens()
    person.sees(r"Go on\? \[y/N\] ")
    person.type("n\n")
    assert person.sees_the_end() == 126


def test_without_a_terminal_it_says_what_to_use(hermes_env) -> None:
    done = hermes_env("shell", stdin="ls\n")
    assert (done.returncode, done.stdout) == (125, "")
    assert "standard input is no terminal" in done.stderr and "hermes-env exec" in done.stderr


def test_a_backend_without_terminals_says_so(opens: Opens) -> None:
    tests = str(Path(__file__).parents[1])
    person = opens("-b", "targets.per_command_local:PerCommandLocal", PYTHONPATH=tests)
    person.sees("has no pty")
    assert person.sees_the_end() == 125
    assert person.has_terminal_as_it_was


def test_an_error_gives_the_terminal_back(opens: Opens, variables: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(
        "from hermes_env.interactive import session\n"
        "from hermes_env.cli import main\n"
        "def broken(*_): raise OSError('a fault')\n"
        "session.InputPump = broken\n"
        "import sys; sys.argv[:] = ['hermes-env', 'shell']\n"
        "main()\n"
    )
    person = Person([sys.executable, str(broken)], variables, tmp_path)
    try:
        person.sees("a fault")
        assert person.sees_the_end() == 1
        assert person.has_terminal_as_it_was
        assert person.settings()[3] & termios.ECHO
    finally:
        person.close()
