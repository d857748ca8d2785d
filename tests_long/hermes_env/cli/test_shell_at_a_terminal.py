"""`hermes-env shell` at a real pseudo-terminal: ordinary use by a person."""

from __future__ import annotations

import signal

from targets.command_line import CommandLine, Opens
from targets.processes import all_gone, having

from environments.conformance.check import wait_until

PROMPT = r"[$#] "


def test_it_has_the_window_and_its_code_and_ends_what_was_left_behind(opens: Opens, nap: str) -> None:
    person = opens("shell")
    person.sees(PROMPT)
    assert not person.has_terminal_as_it_was
    person.type("stty size; echo $TERM\r")
    person.sees("33 111\r\nxterm-256color\r\n")
    person.type(f"nohup sleep {nap} >/dev/null 2>&1 & until stty size | grep '20 66'; do sleep 0.1; done\r")
    person.resize(20, 66)
    person.sees("20 66\r\n")
    person.type("exit 7\r")
    assert person.sees_the_end() == 7
    assert person.has_terminal_as_it_was
    assert all_gone(nap)


def test_control_c_and_control_z_are_for_the_command_there(opens: Opens, nap: str) -> None:
    person = opens("shell")
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


def test_tilde_dot_at_the_beginning_of_a_line_ends_it(opens: Opens, nap: str) -> None:
    person = opens("shell")
    person.type("echo not~.here\r~~\x15echo ~/x ~+ | tr / .\r")
    person.sees("not~.here\r\n")
    person.sees(r"\.x ")
    person.type(f"trap '' INT QUIT; sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.type("\x03\x04\r~.")
    assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    assert all_gone(nap)


def test_a_signal_ends_it_and_gives_the_terminal_back(opens: Opens, nap: str) -> None:
    person = opens("shell")
    person.type(f"printf '\\033[?1049h\\033[?25l\\033[?7l\\033[?7h\\033[31m'; sleep {nap}\r")
    assert wait_until(lambda: bool(having(nap)), 60)
    person.sees(r"\x1b\[31m")
    person.program.send_signal(signal.SIGTERM)
    assert person.sees_the_end() == 130
    assert person.has_terminal_as_it_was
    shown = person.sees(r"(?s)\x1b\[\?1049l.*")
    assert "\x1b[?25h" in shown and "\x1b[?7" not in shown and "\x1b[0m" in shown, "the screen is as it was, too"
    assert "Traceback" not in person.all.decode()
    assert all_gone(nap)


def test_without_a_terminal_it_says_what_to_use(hermes_env: CommandLine) -> None:
    done = hermes_env("shell", stdin="ls\n")
    assert (done.returncode, done.stdout) == (125, "")
    assert "standard input is no terminal" in done.stderr and "hermes-env exec" in done.stderr
