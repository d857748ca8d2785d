"""Start and end of a sandbox, and refusals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from targets.bubblewrap import end_sandbox, first_process
from targets.engines import require_bubblewrap
from targets.processes import all_gone, sleepers

from environments import (
    BaseEnvironment,
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    UnsupportedError,
)
from environments.conformance.check import wait_until
from environments.inventory import collect_garbage
from environments.target import this_machine

WORK = """
import os, sys
from environments import create_environment
env = create_environment("bubblewrap")
env.execute("true")
print(env._sandbox.pid, flush=True)
if sys.argv[2] == "forks" and os.fork() == 0:
    import time
    time.sleep(float(sys.argv[1]))
env.execute(f"setsid sleep {sys.argv[1]} & sleep {sys.argv[1]}", timeout=600)
"""

Start = Callable[..., tuple["subprocess.Popen[str]", psutil.Process]]


@pytest.fixture
def start(home: Path, nap: str) -> Iterator[Start]:
    """Start a program in the middle of a command; return its process and the sandbox's first process."""
    require_bubblewrap()
    started: list[subprocess.Popen[str]] = []

    def begin(how: str = "") -> tuple[subprocess.Popen[str], psutil.Process]:
        argv = [sys.executable, "-c", WORK, nap, how]
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, text=True, cwd=home / "project", start_new_session=True
        )
        started.append(process)
        assert process.stdout
        first = psutil.Process(int(process.stdout.readline()))
        assert wait_until(lambda: len(sleepers(nap)) == 2, 30)
        return process, first

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with its fork
        process.communicate()


def test_cleanup_leaves_no_process_of_a_sandbox(env: BaseEnvironment, nap: str) -> None:
    env.execute(f"setsid sleep {nap} & (setsid env -i sleep {nap} >/dev/null 2>&1 <&- &) ; :")
    first = psutil.Process(first_process(env))
    outside = first.parent()
    assert outside and outside.name() == "bwrap"
    assert wait_until(lambda: len(sleepers(nap)) == 2, 30)
    env.cleanup()
    assert sleepers(nap) == []
    assert not first.is_running()
    assert not outside.is_running()


@pytest.mark.parametrize("how", ["", "forks"])
def test_a_sandbox_ends_when_its_program_is_killed(start: Start, nap: str, how: str) -> None:
    process, first = start(how)
    process.kill()
    process.wait()
    assert wait_until(lambda: not sleepers(nap), 30)
    assert wait_until(lambda: not first.is_running(), 30)


def test_a_sandbox_ends_when_the_outer_bwrap_process_is_killed(env: BaseEnvironment, nap: str) -> None:
    env.execute(f"setsid sleep {nap} & :")
    assert wait_until(lambda: len(sleepers(nap)) == 1, 30)
    outside = psutil.Process(first_process(env)).parent()
    assert outside
    outside.kill()
    assert wait_until(lambda: not sleepers(nap), 30)
    with contextlib.suppress(EnvironmentLostError):  # unless the loss was detected before
        env.execute("true")
    assert env.execute("echo again").output == "again\n"


@pytest.mark.alone("garbage")
def test_gc_ends_a_sandbox_that_outlives_its_program(start: Start, nap: str) -> None:
    process, first = start()
    first.suspend()  # does not notice the end of its parent
    process.kill()
    process.wait()
    assert len(sleepers(nap)) == 2
    assert [line for line in collect_garbage() if str(process.pid) in line]
    assert all_gone(nap)
    assert wait_until(lambda: not first.is_running(), 30)


def test_cleanup_in_a_forked_child_leaves_the_sandbox(env: BaseEnvironment) -> None:
    env.execute("true")
    before = first_process(env)
    child = os.fork()
    if child == 0:
        try:
            env.cleanup()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert env.execute_oneshot("echo here").output == "here\n"
    assert first_process(env) == before


def test_a_sandbox_outlives_the_thread_that_started_it(env: BaseEnvironment) -> None:
    thread = threading.Thread(target=env.execute, args=("A=1",))
    thread.start()
    thread.join(60)
    assert env.execute("echo $A").output == "1\n"


def test_the_command_after_a_lost_sandbox_has_a_new_sandbox(env: BaseEnvironment) -> None:
    began: list[str] = []

    def end_once(text: str) -> None:
        if not began:
            began.append(text)
            end_sandbox(env)

    with pytest.raises(EnvironmentLostError, match="its sandbox has ended"):
        env.execute("echo x | tee /tmp/file; sleep 1000", on_output=end_once, timeout=100)
    assert "No such file" in env.execute("cat /tmp/file").output


def test_a_working_directory_that_would_show_hidden_files_is_refused(make_sandbox, home: Path) -> None:
    (home / "link").symlink_to(home)
    for where in ("~", "/", "/tmp", "/home/..", "~/.hermes", "~/link"):
        with pytest.raises(SettingsError, match=r"cwd \(TERMINAL_CWD\): .* which is or contains"):
            make_sandbox(cwd=where)


def test_a_path_that_is_not_there_or_not_absolute_is_named(make_sandbox, home: Path) -> None:
    with pytest.raises(EnvironmentStartError, match=r"TERMINAL_CWD.*none does not exist"):
        make_sandbox(cwd=str(home / "none")).execute("true")
    for name in ("paths", "read_only_paths"):
        with pytest.raises(SettingsError, match=f"{name}: 'data' is not an absolute path"):
            make_sandbox(**{name: ["data"]})
        with pytest.raises(EnvironmentStartError, match=f"{name}: .*/none does not exist"):
            make_sandbox(**{name: ["/none"]}).execute("true")


def test_a_missing_bwrap_is_named_with_the_remedy(make_sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_sandbox()
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(UnsupportedError, match=r"no `bwrap` on PATH; install the package bubblewrap"):
        env.execute("true")


REFUSED = """
from environments import UnsupportedError, create_environment
env = create_environment("bubblewrap")
try:
    print(env.execute("echo ran").output)
except UnsupportedError as error:
    print("refused:", error)
env.cleanup()
"""


def test_a_kernel_that_refuses_namespaces_is_named_and_nothing_runs(home: Path) -> None:
    require_bubblewrap()
    # A limit of 0 inside a user namespace makes the kernel itself refuse further namespaces.
    limits = 'for kind in user mnt pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces; done; exec "$@"'
    refusing = ["unshare", "--user", "--map-root-user", "sh", "-c", limits, "sh", sys.executable, "-c", REFUSED]
    done = subprocess.run(refusing, cwd=home / "project", capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused: backend 'bubblewrap' cannot be used here: "), done
    assert "max_user_namespaces" in done.stdout


def test_a_sandbox_is_entered_by_root_alone(make_sandbox):
    with make_sandbox() as env:
        env.execute("cd /usr; touch /tmp/of-the-sandbox")
        target = env.target
        assert (target.backend, target.kind, target.host) == ("bubblewrap", "sandbox", this_machine())
        if os.geteuid() != 0:
            assert target.enter == ()
            return
        got = subprocess.run([*target.enter, "-c", "pwd; ls -d /tmp/of-*"], capture_output=True, text=True, check=True)
        assert got.stdout == "/usr\n/tmp/of-the-sandbox\n"


def test_a_port_of_a_sandbox_needs_a_network(make_sandbox):
    with make_sandbox(network=True) as env:
        assert str(env.address(80)) == "127.0.0.1:80"
    with (
        make_sandbox() as env,
        pytest.raises(UnsupportedError, match=r"network \(TERMINAL_BUBBLEWRAP_NETWORK\)"),
    ):
        env.address(80)
