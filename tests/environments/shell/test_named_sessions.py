"""Named sessions beside the session of execute. Checks for every backend are in conformance/sessions.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from targets.processes import processes_with

from environments import BaseEnvironment, EnvironmentSession, TerminalError
from environments import session as session_module
from environments.approvals.hooks import CommandRequest
from environments.conformance.check import wait_until


@contextmanager
def running(session: EnvironmentSession, command: str) -> Iterator[None]:
    """Run a command in another thread; wait for its end after the block."""
    thread = threading.Thread(target=session.execute, args=(command,))
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_the_number_of_sessions_is_limited_and_close_makes_room(
    env: BaseEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    env.gate.before_command = asked.append  # type: ignore[assignment]
    session.execute("cd /tmp")
    session.execute("true")
    session.execute("true", cwd="/")
    assert [(request.cwd, request.way) for request in asked] == [(place, "session") for place in ("/usr", "/tmp", "/")]


def test_a_command_of_a_named_session_keeps_the_environment_busy(env: BaseEnvironment, nap: str) -> None:
    session = env.session("busy")
    with running(session, f"sleep {nap}"):
        assert wait_until(lambda: session.busy and bool(processes_with(nap)))
        assert env.busy
        assert env.idle_seconds == 0
        session.interrupt()
    assert not session.busy


def test_a_session_is_not_closed_by_its_own_command_and_close_fails_waiting_commands(
    env: BaseEnvironment, nap: str
) -> None:
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
        assert wait_until(lambda: bool(processes_with(nap)))
        waiting = threading.Thread(target=wait)
        waiting.start()
        session.close()
        waiting.join()
    assert "closed" in str(errors[0])
    assert env.execute("echo on").output == "on\n"
