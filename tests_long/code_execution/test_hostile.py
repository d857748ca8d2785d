"""Scripts that nobody read, on every backend that has a Python but this machine, and what floods, stops or hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.backends import bubblewrap, daytona, docker, local, modal, per_command, singularity, ssh
from targets.hostile_scripts import (
    run_within_limits,
    test_a_bound_credential_is_nowhere_in_the_target,
    test_a_forged_end_of_a_command_reaches_no_other_command,
    test_a_process_that_a_tool_of_ours_started_ends_with_the_script,
    test_a_script_does_not_choose_the_python_of_the_next_one,
    test_deep_directories_in_its_own_directory_go,
    test_nothing_of_a_script_is_left,
    test_what_a_tool_call_left_in_the_background_ends_with_the_script,
)

from code_execution import execute_code
from environments import BaseEnvironment, create_environment

__all__ = [
    "test_a_bound_credential_is_nowhere_in_the_target",
    "test_a_forged_end_of_a_command_reaches_no_other_command",
    "test_a_process_that_a_tool_of_ours_started_ends_with_the_script",
    "test_a_script_does_not_choose_the_python_of_the_next_one",
    "test_deep_directories_in_its_own_directory_go",
    "test_nothing_of_a_script_is_left",
    "test_what_a_tool_call_left_in_the_background_ends_with_the_script",
]


def made(request: pytest.FixtureRequest, folder: Path) -> Iterator[BaseEnvironment]:
    work = folder / "work"
    work.mkdir()
    with request.param(work) as subject, subject.make() as env:
        yield env


@pytest.fixture(params=(local, docker), ids=lambda backend: backend.__name__)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """One on which a script is as near to us as it gets, and one with walls."""
    yield from made(request, tmp_path)


@pytest.fixture(
    params=(bubblewrap, docker, ssh, singularity, per_command, modal, daytona), ids=lambda backend: backend.__name__
)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Every backend that has a Python, but this machine, where the first ring runs the same."""
    yield from made(request, tmp_path)


STOPS_ITS_RELAY = """
import os, signal, threading, time, hermes_tools
def stop():
    time.sleep(0.5)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if hermes_tools._SOCKET_PATH.encode() in words and int(pid) != os.getpid():
            os.kill(int(pid), signal.SIGSTOP)
threading.Thread(target=stop).start()
for _ in range(10):
    hermes_tools.large()
"""


def test_a_relay_that_is_stopped_while_an_answer_is_on_its_way_holds_nobody_up(backend: BaseEnvironment) -> None:
    def large() -> str:
        time.sleep(0.2)
        return "x" * 5_000_000

    result = run_within_limits(backend, STOPS_ITS_RELAY, tools={"large": large}, transport="relay")
    assert result.status == "timeout"
    assert not [thread for thread in threading.enumerate() if thread.name == "hermes-rpc-call"]


SPEAKS_FOR_ITS_RELAY = """
import os, sys, hermes_tools
hermes_tools.nothing()
pipes = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open(f"/proc/{{pid}}/cmdline", "rb").read()
        if hermes_tools._SOCKET_PATH.encode() in words and int(pid) != os.getpid():
            pipes.append(os.open(f"/proc/{{pid}}/fd/1", os.O_WRONLY))
    except OSError:
        continue
print(len(pipes), flush=True)
try:
    {speaks}
except OSError:
    pass
import time; time.sleep(1)
"""


@pytest.mark.parametrize(
    "speaks",
    [
        "for _ in range(2000): os.write(pipes[0], b'x' * 1_000_000)",
        "os.write(pipes[0], b'7 ')\n    for _ in range(2000): os.write(pipes[0], b'x' * 1_000_000)",
        "for number in range(3000): os.write(pipes[0], b'%d {}\\n' % number)",
    ],
    ids=["an endless line", "an endless request", "thousands of connections"],
)
def test_what_is_said_in_the_relays_place_takes_neither_memory_nor_threads(
    backend: BaseEnvironment, speaks: str
) -> None:
    process = psutil.Process()
    threads, memory = threading.active_count(), process.memory_info().rss
    most = [threads, memory]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], threading.active_count())
            most[1] = max(most[1], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        code = SPEAKS_FOR_ITS_RELAY.format(speaks=speaks)
        run_within_limits(backend, code, tools={"nothing": lambda: None}, transport="relay")
    finally:
        ended.set()
        watcher.join()
    assert most[0] - threads < 50
    assert most[1] - memory < 150_000_000


def test_an_interpreter_of_the_sessions_own_that_hangs_costs_no_more_than_the_limit(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        env.execute("mkdir -p bin; printf '#!/bin/sh\\nsleep 600\\n' >bin/python; chmod +x bin/python")
        env.execute("export VIRTUAL_ENV=$PWD")
        result = execute_code("print(1)", env=env, timeout=2)
        taken_by = f"starting the Python {tmp_path}/bin/python"
        said = f"The time limit of 2 s was used up by {taken_by}; the script did not run."
        assert (result.status, result.exit_code, result.output, result.error) == ("timeout", None, said, said)


def test_other_sessions_go_on_while_a_script_floods_its_parent(tmp_path: Path) -> None:
    code = """
import socket, threading, hermes_tools
def flood():
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connected:
                connected.connect(hermes_tools._SOCKET_PATH)
                connected.sendall(b"[],[]," * 10_000)
        except OSError:
            pass
for _ in range(20):
    threading.Thread(target=flood, daemon=True).start()
import time; time.sleep(3)
"""
    with create_environment("local") as hostile, create_environment("local") as other:
        flooding = threading.Thread(target=run_within_limits, args=(hostile, code), kwargs={"tools": {"t": print}})
        flooding.start()
        done = 0
        while flooding.is_alive():
            assert other.execute("echo fine").output == "fine\n"
            assert execute_code("print(1)", env=other, timeout=60).output == "1\n"
            done += 1
        flooding.join()
        assert done >= 3
