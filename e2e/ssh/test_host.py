"""`run_there`: programs run on a host for a backend whose engine is on that host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from targets.ssh_server import SSHServer

from environments import EnvironmentLostError, load_settings
from environments.conformance.check import wait_until
from environments.errors import StartStoppedError
from environments.shell.host import MOST_OUTPUT, run_there
from environments.ssh import SSHEnvironment
from environments.starting import Start

StartServer = Callable[..., SSHServer]


@pytest.fixture
def host(server: SSHServer) -> Iterator[SSHEnvironment]:
    with SSHEnvironment(load_settings("ssh", **server.settings)) as made:
        made.execute("true")
        yield made


def test_output_and_exit_code_of_a_program_come_back(host: SSHEnvironment) -> None:
    done = run_there(
        host, ["/bin/sh", "-c", "printf '%s|' \"$@\"; read -r word || echo none >&2; exit 4", "sh", "a b", "*"]
    )
    assert (done.exit_code, done.output, done.errors) == (4, "a b|*|", "none\n")
    much = run_there(host, ["head", "-c", str(20 * MOST_OUTPUT), "/dev/zero"])
    assert much.exit_code == 0 and len(much.output) < 2 * MOST_OUTPUT


def test_lines_come_in_the_callers_thread_while_the_program_runs(host: SSHEnvironment) -> None:
    lines: list[tuple[str, int]] = []

    def on_line(line: str) -> None:
        time.sleep(0.01)  # a slow callback: the loop does not wait for it
        lines.append((line, threading.get_ident()))

    run_there(host, ["/bin/sh", "-c", "printf 'one\\ntw'; sleep 0.2; printf 'o\\nrest'"], on_line)
    assert lines == [(line, threading.get_ident()) for line in ("one", "two", "rest")]


def test_an_error_of_the_line_callback_ends_the_program(host: SSHEnvironment) -> None:
    def on_line(line: str) -> None:
        pids.append(int(line))
        raise ValueError("no more of it")

    pids: list[int] = []
    with pytest.raises(ValueError, match="no more of it"):
        run_there(host, ["/bin/sh", "-c", "echo $$; exec sleep 1000"], on_line)
    assert wait_until(lambda: not psutil.pid_exists(pids[0]), 30)


@pytest.mark.parametrize("script", ["exec sleep 1000", "trap '' TERM; sleep 1000 & wait; wait"])
def test_a_stopped_start_ends_the_program_and_its_children(host: SSHEnvironment, script: str) -> None:
    start, pids = Start("ssh"), list[int]()

    def on_line(line: str) -> None:
        if line.isdigit():  # other lines are the shell's report of the exit
            pids.append(int(line))
            start.mark_stopped("it was given up")
            start.abort()
            start.abort()

    with start.active(), pytest.raises(StartStoppedError, match="it was given up"):
        run_there(host, ["/bin/sh", "-c", f"echo $$; {script}"], on_line)
    assert wait_until(lambda: not psutil.pid_exists(pids[0]), 30)
    assert run_there(host, ["echo", "on"]).output == "on\n"


def test_a_dropped_link_under_a_program_is_a_loss(host: SSHEnvironment, server: SSHServer) -> None:
    with pytest.raises(EnvironmentLostError):
        run_there(host, ["/bin/sh", "-c", "echo ready; exec sleep 1000"], lambda _: server.kill_connections())


def test_a_stopped_start_does_not_wait_for_a_stalled_link(start_server: StartServer) -> None:
    server, start, stopped = start_server(), Start("ssh"), list[psutil.Process]()

    def on_line(_: str) -> None:
        for process in server._serving():
            process.suspend()
            stopped.append(process)
        start.mark_stopped("it was given up")
        start.abort()

    with SSHEnvironment(load_settings("ssh", **server.settings)) as host:
        host.execute("true")
        [link] = host._links
        with start.active(), pytest.raises(StartStoppedError, match="it was given up"):
            run_there(host, ["/bin/sh", "-c", "echo ready; exec sleep 1000"], on_line)
        assert link.loss() is None, "the stop waited until the stalled link was detected"
        for process in stopped:
            process.resume()
