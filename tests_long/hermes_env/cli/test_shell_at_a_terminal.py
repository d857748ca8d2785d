"""`hermes-env shell` at a real pseudo-terminal: ordinary use."""

from __future__ import annotations

import signal

from targets.command_line import CommandLine, OpenTerminal
from targets.processes import all_gone, processes_with

from environments.conformance.check import wait_until

PROMPT = r"[$#] "


def test_the_shell_has_window_size_and_exit_code_and_ends_leftovers(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal("shell")
    user.expect(PROMPT)
    assert not user.has_initial_settings
    user.type("stty size; echo $TERM\r")
    user.expect("33 111\r\nxterm-256color\r\n")
    user.type(f"nohup sleep {nap} >/dev/null 2>&1 & until stty size | grep '20 66'; do sleep 0.1; done\r")
    user.resize(20, 66)
    user.expect("20 66\r\n")
    user.type("exit 7\r")
    assert user.wait_for_exit() == 7
    assert user.has_initial_settings
    assert all_gone(nap)


def test_control_c_and_control_z_are_for_the_command_there(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal("shell")
    command = f"sh -c 'echo up$((1)); exec sleep {nap}'\r"
    user.type(command)
    user.expect("up1\r\n")
    user.type("\x03")
    user.type("echo code$?\r")
    user.expect("code130\r\n")
    user.type(command)
    user.expect("up1\r\n")
    user.type("\x1a")
    user.expect("Stopped")
    user.type("jobs\r")
    user.expect(rf"\[1\]\+ +Stopped.*{nap}'\r\n")
    user.type("fg\r")
    user.expect(f"exec sleep {nap}'\r\n")
    user.type("\x03")
    user.expect(PROMPT)
    user.type("\x04")
    assert user.wait_for_exit() == 130, "control-D ends the shell with the code of its last command"
    assert all_gone(nap)


def test_tilde_dot_at_the_beginning_of_a_line_ends_the_shell(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal("shell")
    user.type("echo not~.here\r~~\x15echo ~/x ~+ | tr / .\r")
    user.expect("not~.here\r\n")
    user.expect(r"\.x ")
    user.type(f"trap '' INT QUIT; sleep {nap}\r")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    user.type("\x03\x04\r~.")
    assert user.wait_for_exit() == 130
    assert user.has_initial_settings
    assert all_gone(nap)


def test_a_signal_ends_the_shell_and_restores_the_terminal(open_terminal: OpenTerminal, nap: str) -> None:
    user = open_terminal("shell")
    user.type(f"printf '\\033[?1049h\\033[?25l\\033[?7l\\033[?7h\\033[31m'; sleep {nap}\r")
    assert wait_until(lambda: bool(processes_with(nap)), 60)
    user.expect(r"\x1b\[31m")
    user.program.send_signal(signal.SIGTERM)
    assert user.wait_for_exit() == 130
    assert user.has_initial_settings
    shown = user.expect(r"(?s)\x1b\[\?1049l.*")
    assert "\x1b[?25h" in shown and "\x1b[?7" not in shown and "\x1b[0m" in shown, "the screen is as it was, too"
    assert "Traceback" not in user.all.decode()
    assert all_gone(nap)


def test_without_a_terminal_the_error_names_an_alternative(hermes_env: CommandLine) -> None:
    done = hermes_env("shell", stdin="ls\n")
    assert (done.returncode, done.stdout) == (125, "")
    assert "standard input is no terminal" in done.stderr and "hermes-env exec" in done.stderr
