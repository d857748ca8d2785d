"""How a sandbox begins and ends, and where it is refused."""

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
    """Starts a process of ours that is in the middle of a command, and returns it and the first of its sandbox."""
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


def test_after_cleanup_no_process_of_it_is_left_on_this_machine(env: BaseEnvironment, nap: str) -> None:
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
def test_all_of_it_ends_when_this_process_is_killed(start: Start, nap: str, how: str) -> None:
    process, first = start(how)
    process.kill()
    process.wait()
    assert wait_until(lambda: not sleepers(nap), 30)
    assert wait_until(lambda: not first.is_running(), 30)


def test_all_of_it_ends_when_bubblewraps_process_outside_is_killed(env: BaseEnvironment, nap: str) -> None:
    env.execute(f"setsid sleep {nap} & :")
    assert wait_until(lambda: len(sleepers(nap)) == 1, 30)
    outside = psutil.Process(first_process(env)).parent()
    assert outside
    outside.kill()
    assert wait_until(lambda: not sleepers(nap), 30)
    with contextlib.suppress(EnvironmentLostError):  # unless that was found out before
        env.execute("true")
    assert env.execute("echo again").output == "again\n"


@pytest.mark.alone("garbage")
def test_what_does_not_end_with_a_killed_process_is_collected(start: Start, nap: str) -> None:
    process, first = start()
    first.suspend()  # so that it does not notice
    process.kill()
    process.wait()
    assert len(sleepers(nap)) == 2
    assert [line for line in collect_garbage() if str(process.pid) in line]
    assert all_gone(nap)
    assert wait_until(lambda: not first.is_running(), 30)


def test_a_forked_child_ends_nothing_of_it(env: BaseEnvironment) -> None:
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


def test_it_outlives_the_thread_that_has_started_it(env: BaseEnvironment) -> None:
    thread = threading.Thread(target=env.execute, args=("A=1",))
    thread.start()
    thread.join(60)
    assert env.execute("echo $A").output == "1\n"


def test_when_it_is_lost_the_next_command_has_a_new_one(env: BaseEnvironment) -> None:
    began: list[str] = []

    def end_once(text: str) -> None:
        if not began:
            began.append(text)
            end_sandbox(env)

    with pytest.raises(EnvironmentLostError, match="its sandbox has ended"):
        env.execute("echo x | tee /tmp/file; sleep 1000", on_output=end_once, timeout=100)
    assert "No such file" in env.execute("cat /tmp/file").output


def test_a_working_directory_that_would_show_what_is_hidden_is_refused(sandboxed, home: Path) -> None:
    (home / "link").symlink_to(home)
    for where in ("~", "/", "/tmp", "/home/..", "~/.hermes", "~/link"):
        with pytest.raises(SettingsError, match=r"cwd \(TERMINAL_CWD\): .* which is or contains"):
            sandboxed(cwd=where)


def test_a_path_that_is_not_there_or_not_absolute_is_named(sandboxed, home: Path) -> None:
    with pytest.raises(EnvironmentStartError, match=r"TERMINAL_CWD.*none does not exist"):
        sandboxed(cwd=str(home / "none")).execute("true")
    for name in ("paths", "read_only_paths"):
        with pytest.raises(SettingsError, match=f"{name}: 'data' is not an absolute path"):
            sandboxed(**{name: ["data"]})
        with pytest.raises(EnvironmentStartError, match=f"{name}: .*/none does not exist"):
            sandboxed(**{name: ["/none"]}).execute("true")


def test_without_bubblewrap_it_is_refused_with_what_to_do(sandboxed, monkeypatch: pytest.MonkeyPatch) -> None:
    env = sandboxed()
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
    # The limits of a user namespace hold for what is in it, and are this kernel's own way to refuse.
    limits = 'for kind in user mnt pid; do echo 0 >/proc/sys/user/max_${kind}_namespaces; done; exec "$@"'
    refusing = ["unshare", "--user", "--map-root-user", "sh", "-c", limits, "sh", sys.executable, "-c", REFUSED]
    done = subprocess.run(refusing, cwd=home / "project", capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused: backend 'bubblewrap' cannot be used here: "), done
    assert "max_user_namespaces" in done.stdout


def test_a_sandbox_is_entered_by_root_alone(sandboxed):
    with sandboxed() as env:
        env.execute("cd /usr; touch /tmp/of-the-sandbox")
        target = env.target
        assert (target.backend, target.kind, target.host) == ("bubblewrap", "sandbox", this_machine())
        if os.geteuid() != 0:
            assert target.enter == ()
            return
        got = subprocess.run([*target.enter, "-c", "pwd; ls -d /tmp/of-*"], capture_output=True, text=True, check=True)
        assert got.stdout == "/usr\n/tmp/of-the-sandbox\n"


def test_a_port_of_a_sandbox_needs_a_network(sandboxed):
    with sandboxed(network=True) as env:
        assert str(env.address(80)) == "127.0.0.1:80"
    with (
        sandboxed() as env,
        pytest.raises(UnsupportedError, match=r"network \(TERMINAL_BUBBLEWRAP_NETWORK\)"),
    ):
        env.address(80)
