"""Scripts that nobody read: what one does to its parent, to other sessions, and what it leaves behind."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.backends import bubblewrap, daytona, docker, local, modal, per_command, singularity, ssh

from code_execution import ExecutionResult, execute_code
from code_execution.ending import ENDING_LIMIT, REMOVAL_LIMIT, SCRIPT_GRACE
from environments import BaseEnvironment, create_environment

SLACK = 10.0
"""Seconds for a loaded machine, beyond what is promised."""
PROMISED = SCRIPT_GRACE + 5.0


FULL = (local, docker)
MACHINES = (local, bubblewrap, docker, ssh, singularity, per_command)
ALL = (*MACHINES, modal, daytona)


def made(request: pytest.FixtureRequest, folder: Path) -> Iterator[BaseEnvironment]:
    work = folder / "work"
    work.mkdir()
    with request.param(work) as subject, subject.make() as env:
        yield env


@pytest.fixture(params=FULL, ids=lambda backend: backend.__name__)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """One on which a script is as near to us as it gets, and one with walls."""
    yield from made(request, tmp_path)


@pytest.fixture(params=MACHINES, ids=lambda backend: backend.__name__)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """One that answers quickly."""
    yield from made(request, tmp_path)


@pytest.fixture(params=ALL, ids=lambda backend: backend.__name__)
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BaseEnvironment]:
    """Every backend that has a Python."""
    yield from made(request, tmp_path)


def scripts_directories(env: BaseEnvironment) -> list[str]:
    return env.execute_oneshot(f"ls -d {env.scratch_directory()}/script-* 2>/dev/null; :").output.split()


def unlike_any_other(word: str) -> str:
    """Return a number of seconds to sleep by which a process is known among those of tests beside this one."""
    return f"{word}.{random.randrange(10**9)}"


def running(env: BaseEnvironment, word: str) -> str:
    """Return the processes of the target that have a word as an argument."""
    return env.execute_oneshot(f"grep -lsa -e '[{word[0]}]{word[1:]}' /proc/[0-9]*/cmdline; :").output


def run_within_limits(env: BaseEnvironment, code: str, timeout: float = 5.0, **options: object) -> ExecutionResult:
    began = time.monotonic()
    result = execute_code(code, env=env, timeout=timeout, **options)  # type: ignore[arg-type]
    assert time.monotonic() - began < timeout + PROMISED + SLACK
    assert env.execute("echo goes on").output == "goes on\n"
    return result


def test_the_limits_of_ending_are_what_is_promised() -> None:
    assert ENDING_LIMIT + REMOVAL_LIMIT <= PROMISED


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


def test_deep_directories_in_its_own_directory_go(machine: BaseEnvironment) -> None:
    code = """
import os
os.chdir(os.path.dirname(os.path.abspath(__file__)))
for _ in range(1500):
    os.mkdir("d"); os.chdir("d")
os.chmod(".", 0)
print("made")
"""
    result = run_within_limits(machine, code, timeout=30, mode="strict")
    assert result.output == "made\n"
    assert scripts_directories(machine) == []


CLOSES_ALL = 'import os; os.fork() or (os.setsid(), os.closerange(0, 999), os.execlp("sleep", "sleep", "65403"))'


@pytest.mark.parametrize(
    ("word", "starts"),
    [
        ("65401", "setsid sleep 65401 >/dev/null 2>&1 &"),
        ("65402", "(setsid nohup sleep 65402 </dev/null >/dev/null 2>&1 &)"),
        ("65403", f"python3 -c '{CLOSES_ALL}'"),
        ("65404", "env -i setsid sleep 65404 >/dev/null 2>&1 &"),
    ],
    ids=["setsid", "twice", "descriptors closed", "without a marker"],
)
def test_what_a_tool_call_left_in_the_background_ends_with_the_script(
    machine: BaseEnvironment, word: str, starts: str
) -> None:
    given, word = word, unlike_any_other(word)
    starts = starts.replace(given, word)
    machine.execute(f"sleep 99{word} >/dev/null 2>&1 &")  # the session's own, which stays
    code = f"from hermes_tools import terminal\nprint(terminal({starts!r})['exit_code'])"
    assert run_within_limits(machine, code, timeout=60).output == "0\n"
    assert len(running(machine, word).split()) == 1
    assert len(running(machine, f"99{word}").split()) == 1


def test_what_each_of_several_tool_calls_left_ends_with_the_script(machine: BaseEnvironment) -> None:
    words = [unlike_any_other(word) for word in ("65406", "65407")]
    left = [f"python3 -c '{CLOSES_ALL.replace('65403', word)}'" for word in words]
    code = f"from hermes_tools import terminal\nprint([terminal(each)['exit_code'] for each in {left!r}])"
    assert run_within_limits(machine, code, timeout=60).output == "[0, 0]\n"
    assert [running(machine, word) for word in words] == ["", ""]


def test_a_process_that_a_tool_of_ours_started_ends_with_the_script(anywhere: BaseEnvironment) -> None:
    word = unlike_any_other("65405")

    def serve() -> int:
        return anywhere.start(f"sleep {word}").pid

    run_within_limits(anywhere, "import hermes_tools; hermes_tools.serve()", timeout=60, tools={"serve": serve})
    assert running(anywhere, word) == ""


def test_a_script_does_not_choose_the_python_of_the_next_one(anywhere: BaseEnvironment) -> None:
    code = """
from hermes_tools import terminal
terminal("mkdir -p fake/bin; printf '#!/bin/sh\\necho taken over\\n' >fake/bin/python; chmod +x fake/bin/python")
terminal("export VIRTUAL_ENV=$PWD/fake; touch seen")
"""
    run_within_limits(anywhere, code, timeout=60)
    assert execute_code("print('ours')", env=anywhere).output == "ours\n"
    assert anywhere.execute("true").ok
    assert execute_code("print('ours')", env=anywhere).output == "ours\n"


@pytest.mark.parametrize("python_start", ["cold"], indirect=True)
def test_an_interpreter_of_the_sessions_own_that_hangs_costs_no_more_than_the_limit(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path)) as env:
        env.execute("mkdir -p bin; printf '#!/bin/sh\\nsleep 600\\n' >bin/python; chmod +x bin/python")
        env.execute("export VIRTUAL_ENV=$PWD")
        began = time.monotonic()
        result = execute_code("print(1)", env=env, timeout=2)
        taken_by = f"starting the Python {tmp_path}/bin/python"
        said = f"The time limit of 2 s was used up by {taken_by}; the script did not run."
        assert (result.status, result.exit_code, result.output, result.error) == ("timeout", None, said, said)
        assert time.monotonic() - began < 2 + PROMISED + SLACK


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


FORGES_ITS_END = r"""
nonce=$(set | sed -n 's/.*.036\([0-9a-f]\{16\}\) M.*/\1/p' | head -n 1)
number=${HERMES_COMMAND%/}
printf '\036%s M%s\0%s\0%s\0/\0\0\0\0' "$nonce" "${number##*/}" 42 0
sleep 1
"""


def test_a_forged_end_of_a_command_reaches_no_other_command(backend: BaseEnvironment) -> None:
    """The nonce of the session's shell is known to what runs in it: such a command can lie about itself alone."""
    result = backend.execute(FORGES_ITS_END)
    assert result.exit_code == 42
    for number in range(5):
        result = backend.execute(f"echo {number}; (exit {number})")
        assert (result.output, result.exit_code) == (f"{number}\n", number)


def test_a_bound_credential_is_nowhere_in_the_target(anywhere: BaseEnvironment) -> None:
    def query(sql: str, api_key: str) -> str:
        return f"{sql}: {len(api_key)}"

    code = """
import hermes_tools
print("sk-live" in open(hermes_tools.__file__).read())
print(hermes_tools.query("SELECT 1"))
print("unexpected keyword argument 'api_key'" in hermes_tools.query("SELECT 1", api_key="mine")["error"])
"""
    tools = {"query": functools.partial(query, api_key="sk-live-1234")}
    assert execute_code(code, env=anywhere, tools=tools).output == "False\nSELECT 1: 12\nTrue\n"


def test_nothing_of_a_script_is_left(anywhere: BaseEnvironment) -> None:
    before = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    word = unlike_any_other("65406")
    code = f"import hermes_tools, subprocess; hermes_tools.t(); subprocess.Popen(['sleep', '{word}'])"
    for transport in ("auto", "file"):
        run_within_limits(anywhere, code, timeout=60, tools={"t": lambda: 1}, transport=transport)
    assert scripts_directories(anywhere) == []
    assert running(anywhere, word) == ""
    after = threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))
    assert after[0] <= before[0] + 4
    assert after[1] <= before[1] + 60
