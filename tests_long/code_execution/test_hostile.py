"""Hostile scripts on every backend with a Python except this machine: floods, stopped processes and hangs."""

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
    test_background_processes_of_a_tool_call_end_with_the_script,
    test_deep_directories_in_its_own_directory_go,
    test_nothing_of_a_script_is_left,
)

from code_execution import execute_code
from environments import BaseEnvironment, create_environment

__all__ = [
    "test_a_bound_credential_is_nowhere_in_the_target",
    "test_a_forged_end_of_a_command_reaches_no_other_command",
    "test_a_process_that_a_tool_of_ours_started_ends_with_the_script",
    "test_a_script_does_not_choose_the_python_of_the_next_one",
    "test_background_processes_of_a_tool_call_end_with_the_script",
    "test_deep_directories_in_its_own_directory_go",
    "test_nothing_of_a_script_is_left",
]


def open_backend(request: pytest.FixtureRequest, folder: Path) -> Iterator[BaseEnvironment]:
    work = folder / "work"
    work.mkdir()
    with request.param(work) as subject, subject.make() as env:
        yield env


@pytest.fixture(params=(local, docker), ids=lambda backend: backend.__name__)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """This machine, on which a script has all our rights, and a container."""
    yield from open_backend(request, tmp_path)


@pytest.fixture(
    params=(bubblewrap, docker, ssh, singularity, per_command, modal, daytona), ids=lambda backend: backend.__name__
)
def other_backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Every backend with a Python, except this machine: the first ring runs the same there."""
    yield from open_backend(request, tmp_path)


STOPS_ITS_RELAY = """
import os, signal, threading, time, hermes_tools
def stop():
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGSTOP)
threading.Thread(target=stop).start()
for _ in range(10):
    hermes_tools.large()
"""


def test_a_relay_stopped_during_an_answer_blocks_no_thread(backend: BaseEnvironment) -> None:
    def large() -> str:
        time.sleep(0.2)
        return "x" * 5_000_000

    result = run_within_limits(backend, STOPS_ITS_RELAY, tools={"large": large}, transport="relay")
    assert result.status == "timeout"
    assert not [thread for thread in threading.enumerate() if thread.name == "hermes-rpc-call"]


FORGES_RELAY_MESSAGES = r"""
import os, re, time, hermes_tools
hermes_tools.nothing()
token, words = hermes_tools._own()[0].encode(), set()
with open(f"/proc/{{os.getppid()}}/maps") as maps, open(f"/proc/{{os.getppid()}}/mem", "rb", 0) as memory:
    for line in maps:
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if "rw" in line.split()[1] and end - begin < 1 << 26:
            memory.seek(begin)
            words.update(re.findall(rb"(?<![0-9a-f])[0-9a-f]{{32}}(?![0-9a-f])", memory.read(end - begin)))
request = b'{{"token":"%s","id":"%d","tool":"nothing","args":[],"kwargs":{{}}}}\n'
def say(message):
    for word in words: os.write(2, b"\x1e" + word + b" " + message)
print(len(words), flush=True)
{speaks}
time.sleep(1)
"""


@pytest.mark.parametrize(
    "speaks",
    [
        "say(b'r 1 ')\nfor _ in range(2000): os.write(2, b'1' * 1_000_000)",
        "for _ in range(20): say(b'r 1 -%d 1\\n' % (50 * len(words)))",
        "for _ in range(200_000): say(b'r 1 4000 0\\n' + (request % (token, 1))[:-1].ljust(4000))",
        "for n in range(9000): say(b'r %d %d 1\\n' % (n, len(request % (token, n))) + request % (token, n))",
        "say(b'e many none\\n')",
    ],
    ids=["an endless line", "a size below zero", "an endless request", "thousands of connections", "no exit code"],
)
def test_forged_relay_messages_take_neither_memory_nor_threads(backend: BaseEnvironment, speaks: str) -> None:
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
        code = FORGES_RELAY_MESSAGES.format(speaks=speaks)
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
                connected.connect(hermes_tools._own()[1])
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
