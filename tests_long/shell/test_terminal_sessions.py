"""Sessions on a terminal: what is shown, what is typed, and who gets it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.local_shells import local, without_bash
from targets.processes import having

from environments import BaseEnvironment, EnvironmentSession


@pytest.fixture(scope="module", params=(local, without_bash), ids=lambda make: make.__name__)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    """This machine, with bash and without."""
    with request.param(tmp_path_factory.mktemp("terminal")) as made:
        yield made


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with local(tmp_path) as made:
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
