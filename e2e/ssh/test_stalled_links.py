"""Stalled links, and commands that stop the sshd process of their connection."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from targets.ssh_server import SSHContainer, SSHServer

from code_execution import execute_code
from environments import EnvironmentLostError, create_environment
from environments.conformance.check import running, unique
from environments.ssh.environment import PING_LIMIT, RECONNECT_LIMIT
from environments.ssh.link import Link

TIME_OUT_LIMIT = 15
"""Seconds within which a time-out of 2 s takes effect: 2 s, the grace period and 5 s."""
STOPS_ALL = "import os, signal, time\nos.kill(-1, signal.SIGSTOP)\ntime.sleep(1000)\n"


def test_a_time_out_ends_its_command_while_the_connections_sshd_is_stopped(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        env.execute("export KEPT=yes; cd /usr")
        for run in (env.execute, env.execute_oneshot):
            word = unique()
            result = run(f"(sleep .5; kill -STOP $PPID) & sh -c ': {word}; sleep 1000; :'", timeout=2)
            assert result.timed_out
            assert result.duration_seconds < TIME_OUT_LIMIT
            assert running(env, word) == 0
        assert env.execute("echo $KEPT $PWD").output == "yes /usr\n"


def test_a_slow_login_that_resumes_a_stopped_sshd_is_no_loss(
    server: SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login may take more than 3 s on a loaded machine."""

    def slow(*arguments: Any) -> Link:
        link = Link(*arguments)
        time.sleep(RECONNECT_LIMIT + PING_LIMIT)
        return link

    with create_environment("ssh", **server.settings) as env:
        env.execute("true")
        monkeypatch.setattr("environments.ssh.environment.Link", slow)
        assert env.execute("(sleep .5; kill -STOP $PPID) & sleep 1000", timeout=2).timed_out


def test_a_stalled_link_delays_no_time_out_and_the_next_command_connects_anew(server: SSHServer) -> None:
    with create_environment("ssh", **server.settings) as env:
        env.execute("export KEPT=yes; cd /usr")
        for run in (env.execute, env.execute_oneshot):
            ended: list[str] = []

            def call(run=run, ended=ended) -> None:  # type: ignore[no-untyped-def]
                with pytest.raises(EnvironmentLostError, match="has not answered"):
                    run("echo so far; sleep 1000", timeout=2)
                ended.append("lost")

            thread = threading.Thread(target=call)
            thread.start()
            thread.join(1)
            with server.stalled():
                thread.join(TIME_OUT_LIMIT)
                assert ended == ["lost"]
            assert env.execute("echo $KEPT $PWD").output == "yes /usr\n"


def test_a_script_that_stops_all_processes_of_its_user_ends_in_time(container: SSHContainer) -> None:
    with create_environment("ssh", user="agent", **container.settings) as env:
        env.execute("export KEPT=yes")
        result = execute_code(STOPS_ALL, env=env, tools={}, timeout=3)
        assert result.status == "timeout"
        assert result.duration_seconds < 3 + 10
        assert env.execute("echo $KEPT", timeout=60).output == "yes\n"
