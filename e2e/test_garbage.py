"""Garbage collection of processes and directories that a killed program left, on the backends local and ssh."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from targets.processes import sleepers
from targets.ssh_server import SSHServer

from environments.conformance.check import wait_until
from environments.inventory import collect_garbage

pytestmark = pytest.mark.alone("garbage")

WORK = """
import sys
from environments import create_environment
env = create_environment(sys.argv[1])
nap = sys.argv[2]
env.execute("cat", stdin="scratch")
env.execute(f"sleep {nap} & sleep {nap}", on_output=print, timeout=600)
"""

Start = Callable[..., "subprocess.Popen[bytes]"]


def _directories(process: subprocess.Popen[bytes]) -> list[Path]:
    return list(Path("/tmp").glob(f"hermes-*-{process.pid}-*"))


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nap: str) -> Iterator[Start]:
    """Start programs in the middle of a command."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    started: list[subprocess.Popen[bytes]] = []

    def begin(backend: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", WORK, backend, nap])
        started.append(process)
        while len(sleepers(nap)) < 2:
            assert process.poll() is None
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _check_is_left_and_then_collected(process: subprocess.Popen[bytes], nap: str, *, ends_alone: bool = False) -> None:
    assert not [line for line in collect_garbage() if str(process.pid) in line], "its process runs"
    assert len(sleepers(nap)) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    if ends_alone:
        assert wait_until(lambda: not sleepers(nap)), "the watchdog of the shell ends the processes"
    else:
        assert sleepers(nap)
    assert _directories(process)
    collected = [line for line in collect_garbage() if str(process.pid) in line]
    assert len(collected) == 1
    assert sleepers(nap) == []
    assert _directories(process) == []
    assert not [line for line in collect_garbage() if str(process.pid) in line]


def test_processes_of_a_killed_program_are_collected_on_this_machine(start: Start, nap: str) -> None:
    _check_is_left_and_then_collected(start("local"), nap, ends_alone=True)


def test_processes_of_a_killed_program_are_collected_over_ssh(
    start: Start, nap: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SSHServer(tmp_path_factory.mktemp("sshd"))
    server.start()
    for name, value in server.settings.items():
        monkeypatch.setenv(f"TERMINAL_SSH_{name.removeprefix('ssh_').upper()}", str(value))
    try:
        _check_is_left_and_then_collected(start("ssh"), nap)
    finally:
        server.remove()
