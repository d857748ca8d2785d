"""What is particular to this machine, and to sessions in general."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from targets.processes import having

from environments import BaseEnvironment, EnvironmentStartError, UnsupportedError, create_environment, load_settings
from environments.cancellation import CancelScope
from environments.settings import RESOURCE_SETTINGS


@pytest.fixture
def env(tmp_path: Path) -> Iterator[BaseEnvironment]:
    with create_environment("local", cwd=str(tmp_path)) as environment:
        yield environment


def test_a_working_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    env = create_environment("local", cwd=str(tmp_path / "none"))
    with env, pytest.raises(EnvironmentStartError, match=r"none.*TERMINAL_CWD"):
        env.execute("true")


@pytest.mark.parametrize("name", ["container_cpu", "container_memory", "container_disk"])
def test_a_limit_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(UnsupportedError, match=name):
        create_environment("local", **{name: 1})


def test_a_limit_of_zero_is_none_and_so_none_to_refuse(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), **dict.fromkeys(RESOURCE_SETTINGS, 0)) as env:
        assert env.execute("true").ok
        assert not env.capabilities.enforced_limits


def test_without_a_persistent_shell_cwd_exports_and_functions_still_last(tmp_path: Path) -> None:
    with create_environment("local", cwd=str(tmp_path), persistent_shell=False) as env:
        first = env.execute("mkdir d; cd d; export A=1; f() { echo f; }; echo $$").output
        second, *rest = env.execute("echo $$; basename $PWD; echo $A; f").output.split()
        assert first.strip() != second
        assert rest == ["d", "1", "f"]
        assert not env.capabilities.persistent_session


def test_the_environments_settings_can_be_pickled() -> None:
    settings = load_settings("local", timeout=5)
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_a_deleted_working_directory_does_not_wedge_the_session(env: BaseEnvironment) -> None:
    env.execute("mkdir gone; cd gone; rmdir ../gone")
    assert "beside" not in env.execute_oneshot("echo beside").output
    assert env.execute("cd ..; echo session").output == "session\n"
    env.execute("mkdir gone; cd gone; rmdir ../gone; exit 3")
    assert env.execute("cd /; pwd").output == "/\n"


def test_exported_functions_survive_exit(env: BaseEnvironment) -> None:
    env.execute("f() { echo exported; }; export -f f; exit 1")
    assert env.execute("bash -c f").output == "exported\n"


def test_two_threads_take_turns_in_the_session(env: BaseEnvironment) -> None:
    results: list[str] = []
    command = "n=$(cat n 2>/dev/null); sleep 0.05; echo $((n+1)) > n"
    threads = [threading.Thread(target=lambda: results.append(env.execute(command).output)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert env.execute("cat n").output == "8\n"


def test_a_cancelled_scope_ends_its_commands_and_refuses_more(env: BaseEnvironment) -> None:
    scope = CancelScope()
    results = []

    def work() -> None:
        with scope.active():
            results.append(env.execute("sleep 100"))
            results.append(env.execute("echo ran"))
            results.append(env.execute_oneshot("echo ran"))

    thread = threading.Thread(target=work)
    thread.start()
    while not env.busy:
        time.sleep(0.01)
    scope.cancel()
    thread.join(30)
    assert [(result.interrupted, result.output) for result in results] == [(True, "")] * 3
    assert env.execute("echo mine").output == "mine\n"


SLEEPER = """
    import sys
    from environments import create_environment
    env = create_environment("local")
    print(env.execute("echo ready").output, end="", flush=True)
    try:
        env.execute(f"sleep {sys.argv[1]}")
    except KeyboardInterrupt:
        print(env.execute("echo alive").output, end="", flush=True)
        env.cleanup()
"""


def _sleepers(nap: str) -> list[psutil.Process]:
    return [process for process in having(nap) if process.info["cmdline"] == ["sleep", nap]]


def _started_sleeper(nap: str) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SLEEPER), nap], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert program.stdout
    assert program.stdout.readline() == "ready\n"
    while not _sleepers(nap):
        time.sleep(0.02)
    return program


@pytest.mark.alone("garbage")
def test_control_c_ends_the_command_and_leaves_the_session_usable(nap: str) -> None:
    program = _started_sleeper(nap)
    os.kill(program.pid, signal.SIGINT)
    output, _ = program.communicate(timeout=60)
    assert (output, program.returncode, _sleepers(nap)) == ("alive\n", 0, [])


@pytest.mark.alone("garbage")
def test_a_shell_whose_parent_was_killed_ends_after_its_command(nap: str) -> None:
    program = _started_sleeper(nap)
    [sleeper] = _sleepers(nap)
    shell = sleeper.parent()
    os.kill(program.pid, signal.SIGKILL)
    program.communicate(timeout=60)
    sleeper.terminate()
    assert shell is not None
    psutil.wait_procs([shell], timeout=30)
    assert not shell.is_running()


def test_a_gigabyte_of_output_takes_no_more_memory_than_the_cap(env: BaseEnvironment) -> None:
    before = psutil.Process().memory_info().rss
    result = env.execute("head -c 1000000000 /dev/zero", timeout=100)
    assert len(result.output) + result.omitted_bytes == 1_000_000_000
    del result
    assert psutil.Process().memory_info().rss - before < 60_000_000
