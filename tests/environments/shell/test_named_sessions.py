"""Sessions of a name beside that of execute. What holds on every backend is in conformance/sessions.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from targets.processes import all_gone, having
from targets.threads import running_threads

from environments import BaseEnvironment, EnvironmentSession, TerminalError, UnsupportedError, create_environment
from environments import session as session_module
from environments.approvals.decision import CommandRequest
from environments.conformance.check import wait_until


@contextmanager
def running(session: EnvironmentSession, command: str) -> Iterator[None]:
    """Run a command in another thread, and wait for its end behind the block."""
    thread = threading.Thread(target=session.execute, args=(command,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, ValueError),
        ({"name": "default"}, ValueError),
        ({"name": 3}, TypeError),
        ({"name": "a", "cwd": "relative"}, ValueError),
        ({"name": "a", "pty": True, "rows": 0}, ValueError),
    ],
)
def test_arguments_are_checked(env: BaseEnvironment, arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        env.session(**arguments)  # type: ignore[arg-type]


def test_a_name_stands_for_one_kind_of_session(env: BaseEnvironment) -> None:
    session = env.session("plain")
    with pytest.raises(ValueError, match="'plain' is open without a pty"):
        env.session("plain", pty=True)
    for act in (lambda: session.write("text"), lambda: session.resize(10, 10)):
        with pytest.raises(UnsupportedError, match="open it with pty=True"):
            act()


def test_there_is_a_bound_and_closing_one_makes_room(env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "MOST_SESSIONS", 2)
    first, _ = env.session("first"), env.session("second")
    with pytest.raises(TerminalError, match="2 sessions are open"):
        env.session("third")
    first.close()
    first.close()
    assert env.session("third").execute("echo room").output == "room\n"


def test_hooks_are_asked_with_the_directory_of_the_session(env: BaseEnvironment) -> None:
    asked: list[CommandRequest] = []
    session = env.session("asked", cwd="/usr")
    env.before_command = asked.append  # type: ignore[assignment]
    session.execute("cd /tmp")
    session.execute("true")
    session.execute("true", cwd="/")
    assert [(request.cwd, request.way) for request in asked] == [(place, "session") for place in ("/usr", "/tmp", "/")]


def test_what_scripts_go_by_is_the_default_sessions(env: BaseEnvironment) -> None:
    before = env.session_variable("PYTHONPATH"), env.cwd
    env.session("other").execute("export PYTHONPATH=/elsewhere; cd /")
    assert (env.session_variable("PYTHONPATH"), env.cwd) == before


def test_one_survives_its_shells_end(env: BaseEnvironment) -> None:
    env.execute("plain=1")
    with env.session("dies") as session:
        session.execute("cd /usr; export KEPT=1; f() { echo f; }")
        session.execute("kill -9 $$")
        assert session.execute("pwd; f; echo $KEPT").output == "/usr\nf\n1\n"
    assert env.execute("echo $plain").output == "1\n"


def test_a_command_of_one_keeps_the_environment_busy(env: BaseEnvironment, nap: str) -> None:
    session = env.session("busy")
    with running(session, f"sleep {nap}"):
        assert wait_until(lambda: session.busy and bool(having(nap)))
        assert env.busy
        assert env.idle_seconds == 0
        session.interrupt()
    assert not session.busy


def test_closing_one_is_refused_to_its_own_command_and_reaches_those_that_wait(env: BaseEnvironment, nap: str) -> None:
    session = env.session("closed")

    def close(_: str) -> None:
        with pytest.raises(TerminalError, match="close was called while this thread runs a command"):
            session.close()

    assert session.execute("echo text", on_output=close).output == "text\n"
    errors: list[TerminalError] = []

    def wait() -> None:
        try:
            session.execute("echo never")
        except TerminalError as error:
            errors.append(error)

    with running(session, f"sleep {nap}"):
        assert wait_until(lambda: bool(having(nap)))
        waiting = threading.Thread(target=wait)
        waiting.start()
        session.close()
        waiting.join()
    assert "closed" in str(errors[0])
    assert env.execute("echo on").output == "on\n"


@pytest.mark.parametrize("pty", [False, True])
def test_cleanup_ends_them_with_all_that_they_have(tmp_path: Path, nap: str, pty: bool) -> None:
    before = running_threads()
    with create_environment("local", cwd=str(tmp_path), env_passthrough=()) as env:
        session = env.session("one", pty=pty)
        session.execute(f"setsid sleep {nap} & sleep {nap} & sleep 0.1")
        assert having(nap)
    assert all_gone(nap)
    with pytest.raises(TerminalError, match="cleaned up"):
        session.execute("true")
    session.close()
    assert running_threads() <= before
