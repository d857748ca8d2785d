"""Connections that fail, or are stopped while the host or its proxy command does not answer."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.processes import processes_with
from targets.silent_server import silent_server
from targets.stopped_starts import Stop, by_a_limit, by_cleanup, by_interrupt, by_its_scope, our_threads

from environments import EnvironmentStartError, SettingsError, create_environment
from environments.base import BaseEnvironment
from environments.conformance.check import wait_until
from environments.progress import Progress
from environments.ssh import link as ssh_link
from environments.ssh.stream import remote_command


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    """Return settings with a key that no test needs to read."""
    (tmp_path / "config").write_text("")
    (tmp_path / "key").write_text("")
    return {"host": "127.0.0.1", "user": "nobody", "key": tmp_path / "key", "config": tmp_path / "config"}


@pytest.fixture
def full_port() -> Iterator[int]:
    """Open a port with a full queue: a connection gets no answer at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        yield port
        for each in waiting:
            each.close()


def make_environment(settings: dict[str, object], **more: object) -> BaseEnvironment:
    return create_environment("ssh", **{**settings, **more})


def error(settings: dict[str, object], **more: object) -> str:
    """Return the error of a failing start."""
    with make_environment(settings, **more) as env, pytest.raises((EnvironmentStartError, SettingsError)) as caught:
        env.execute("true")
    return str(caught.value)


def test_a_start_is_stopped_while_the_host_sends_nothing(settings) -> None:
    with silent_server() as server, make_environment(settings, port=server.port) as env:
        by_interrupt(env, server.reached.wait)
        assert wait_until(lambda: not our_threads(), 30)


def test_a_start_is_stopped_while_the_host_drops_connections(settings, full_port: int) -> None:
    reported: list[Progress] = []
    with make_environment(settings, port=full_port, on_progress=reported.append) as env:
        by_a_limit(env, lambda: wait_until(lambda: len(reported) > 1))
        assert reported[1].what.startswith("connecting to") and str(full_port) in reported[1].what
        assert wait_until(lambda: not our_threads(), 30)


@pytest.mark.parametrize("stop", [by_cleanup, by_its_scope])
def test_a_proxy_command_that_sends_nothing_is_ended(settings, stop: Stop, tmp_path: Path, nap: str) -> None:
    began = tmp_path / "began"
    (tmp_path / "config").write_text(f"Host *\n  ProxyCommand sh -c 'touch {began}; exec sleep {nap}'\n")
    with make_environment(settings) as env:
        stop(env, lambda: wait_until(began.exists, 30))
        assert wait_until(lambda: not our_threads(), 30)
        assert not processes_with(nap)


def test_a_failed_connection_is_an_error_with_the_setting_to_check(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "nothing listens there; check TERMINAL_SSH_PORT" in error(settings, port=port)
    monkeypatch.setattr(ssh_link, "CONNECT_TIMEOUT", 0.2)
    with silent_server() as silent:
        assert "check that an SSH server answers there" in error(settings, port=silent.port)


def test_wrong_settings_are_refused_with_the_setting_to_set(settings) -> None:
    rows = [
        ({"host": None}, "TERMINAL_SSH_HOST"),
        ({"key": "/no/such/key"}, "/no/such/key"),
        ({"config": "/no/such"}, "TERMINAL_SSH_CONFIG"),
        ({"host": "root@example.org"}, "set TERMINAL_SSH_HOST=example.org TERMINAL_SSH_USER=root"),
        ({"host": "example.org:2222"}, "set TERMINAL_SSH_HOST=example.org TERMINAL_SSH_PORT=2222"),
        (
            {"host": "me:open-sesame-4711@example.org"},
            "host is 'me:...@example.org', and should be the host alone; set TERMINAL_SSH_HOST=example.org "
            "TERMINAL_SSH_USER=me TERMINAL_SSH_PASSWORD=...",
        ),
        (
            {"host": "ssh://me@[::1]:22"},
            "set TERMINAL_SSH_HOST=::1 TERMINAL_SSH_USER=me TERMINAL_SSH_PORT=22",
        ),
    ]
    assert [(row, said) for row, words in rows if words not in (said := error(settings, **row))] == []


def test_a_remote_command_is_plain_for_all_login_shells() -> None:
    command = remote_command(["/bin/sh", "-c", "a\n!b 'c' \\ $d `e` é%", "\udcff"])
    quoted = command.split("'")[3]
    assert not set(quoted) & set('\n!$`"%') and quoted.isascii()
    assert command.count("'") == 4
    unpacked = subprocess.run(["printf", "%b", quoted], capture_output=True, check=True).stdout
    assert unpacked == b"exec /bin/sh -c 'a\n!b '\"'\"'c'\"'\"' \\ $d `e` \xc3\xa9%' '\xff'"
