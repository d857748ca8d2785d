"""Sessions on a terminal: what is shown, what is typed, and who gets it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.local_shells import local, per_command, without_bash
from targets.processes import having

from environments import BaseEnvironment, EnvironmentSession, TerminalError, UnsupportedError
from environments.conformance.check import wait_until
from environments.shell.keyboard import MOST_AHEAD, Keyboard


@pytest.fixture(scope="module", params=(local, without_bash), ids=lambda make: make.__name__)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    """This machine, with bash and without."""
    with request.param(tmp_path_factory.mktemp("terminal")) as made:
        yield made


@pytest.fixture
def session(target: BaseEnvironment) -> Iterator[EnvironmentSession]:
    """One on a terminal."""
    with target.session("terminal", pty=True) as made:
        yield made


def answering(session: EnvironmentSession, question: str, answer: str) -> Callable[[str], None]:
    """Type an answer when a question was shown."""
    shown: list[str] = []

    def listen(text: str) -> None:
        shown.append(text)
        if question in "".join(shown):
            shown.clear()
            session.write(answer)

    return listen


def test_a_backend_without_terminals_says_so(tmp_path: Path) -> None:
    with per_command(tmp_path) as env, pytest.raises(UnsupportedError, match="no pty"):
        env.session("terminal", pty=True)


def test_output_is_what_the_command_wrote_and_errors_are_among_it(session: EnvironmentSession) -> None:
    result = session.execute(r"printf 'a\tb\n'; printf 'c\r\n' >&2; printf 'no line break'")
    assert (result.output, result.stderr) == ("a\tb\nc\r\nno line break", None)
    with pytest.raises(ValueError, match="a terminal shows both as one"):
        session.execute("true", stderr="separate")
    with pytest.raises(UnsupportedError, match="has a terminal"):
        session.execute("true", user="nobody")


def test_a_password_is_asked_for_and_not_shown(session: EnvironmentSession) -> None:
    ask = "stty -echo; printf 'Password: '; read -r word; stty echo; echo; echo length ${#word}"
    result = session.execute(ask, on_output=answering(session, "Password: ", "secret\n"))
    assert result.output == "Password: \nlength 6\n"


def test_control_c_is_the_programs_own_to_take(session: EnvironmentSession) -> None:
    program = (
        "import time, sys\ntry:\n print('begun', flush=True)\n time.sleep(900)\nexcept KeyboardInterrupt: sys.exit(4)"
    )
    typing = answering(session, "begun\n", "\x03")
    result = session.execute(f'plain=1; python3 -S -c "{program}"; echo code $?', on_output=typing)
    assert result.output == "begun\n^Ccode 4\n"
    assert session.execute("echo $plain").output == "1\n"


@pytest.mark.parametrize("command", ["echo begun; while :; do :; done", "sh -c 'echo begun; exec cat'; echo after"])
def test_control_c_ends_a_command_and_no_session(session: EnvironmentSession, command: str) -> None:
    session.execute("cd /usr; export KEPT=1")
    result = session.execute(command, on_output=answering(session, "begun\n", "\x03"))
    assert (result.output, result.exit_code, result.interrupted) == ("begun\n^C", 130, False)
    assert session.execute("pwd; echo $KEPT").output == "/usr\n1\n"


def test_control_d_is_the_end_of_input(session: EnvironmentSession) -> None:
    session.write("one\n\x04")
    assert session.execute("cat; echo over").output == "one\none\nover\n"


def test_a_time_out_leaves_the_shell(session: EnvironmentSession, nap: str) -> None:
    session.execute("plain=1")
    assert session.execute(f"sleep {nap}", timeout=0.5).timed_out
    assert not having(nap)
    assert session.execute("echo on; cd /").output == "on\n"


def test_what_a_command_makes_of_the_terminal_is_over_with_it(session: EnvironmentSession) -> None:
    session.execute("stty raw -echo -isig; exec </dev/null >/dev/null")
    result = session.execute("test -t 0 && test -t 1 && printf 'a\\nb\\n'; read -r word", timeout=0.5)
    assert result.output == "a\nb\n"
    assert result.timed_out


def test_a_shell_that_ends_leaves_its_state_to_one_on_a_new_terminal(session: EnvironmentSession) -> None:
    session.execute("cd /usr; export KEPT=1")
    for ending, code in (("exit 3", 3), ("exec sh -c 'exit 4'", 4), ("kill -9 $$", 137)):
        assert session.execute(ending).exit_code == code
        assert session.execute("test -t 0; echo $? $KEPT; pwd").output == "0 1\n/usr\n"


def test_a_background_job_may_show_something_later_and_holds_nobody_up(session: EnvironmentSession) -> None:
    result = session.execute("{ while [ ! -e go ]; do sleep 0.05; done; echo late; : >shown; } & echo now")
    assert result.output == "now\n"
    result = session.execute(": >go; while [ ! -e shown ]; do sleep 0.05; done; echo second", timeout=60)
    assert result.output == "late\nsecond\n"
    assert session.execute("echo third").output == "third\n"


# One process alone: control-Z would also stop what a shell has just begun to start, and the shell then waits for that.
GOES_ON = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
print("begun", flush=True)
signal.sigwait({signal.SIGCONT})
print("going on", flush=True)
signal.pause()
"""


def test_bash_has_job_control(env: BaseEnvironment, nap: str) -> None:
    env.write_bytes("goes_on.py", GOES_ON.encode())
    with env.session("jobs", pty=True) as session:
        program = f"{sys.executable} goes_on.py {nap}"
        stopped = session.execute(program, on_output=answering(session, "begun\n", "\x1a"))
        assert stopped.exit_code == 148
        assert "Stopped" in session.execute("jobs").output
        ended = session.execute("fg", on_output=answering(session, "going on\n", "\x03"))
        assert ended.exit_code == 130
        assert not having(nap)


def test_large_inputs_and_outputs_pass(session: EnvironmentSession) -> None:
    assert session.execute("wc -c", stdin="x" * 300_000).output.strip() == "300000"
    assert len(session.execute("head -c 300000 /dev/zero | tr '\\0' x").output) == 300_000
    assert session.execute(f": {'x' * 100_000}; echo long").output == "long\n"


class HeldTerminal:
    """A terminal that takes what is typed once it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.typed = b""

    def type(self, data: bytes) -> None:
        self.let.wait()
        self.typed += data


def test_what_is_typed_ahead_comes_in_order_and_holds_no_reader_up() -> None:
    keyboard, terminal = Keyboard(), HeldTerminal()
    keyboard.type(b"1")
    keyboard.command_began(terminal)  # type: ignore[arg-type]
    keyboard.type(b"2")
    terminal.let.set()
    assert wait_until(lambda: terminal.typed == b"12")
    keyboard.command_ended()
    keyboard.type(b"3" * MOST_AHEAD)
    with pytest.raises(TerminalError, match="64 KiB were typed"):
        keyboard.type(b"4")
    keyboard.close()
    assert terminal.typed == b"12"
