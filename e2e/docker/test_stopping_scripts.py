"""Scripts that send SIGSTOP to every process of their container."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from targets.engines import PYTHON_IMAGE
from targets.podman_service import podman_service

from code_execution import execute_code
from environments import create_environment
from environments.docker.stream import WaitingShell

LIMIT = 3
LIMITS = ("container_cpu", "container_memory", "container_pids")
LATEST_RETURN = LIMIT + 10
"""Seconds by which `execute_code` has returned: its limit, 5 s of grace and 5 s."""
ONCE = "import os, signal, time\nprint('on', flush=True)\nos.kill(-1, signal.SIGSTOP)\ntime.sleep({})\n"
AGAIN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
ends = time.monotonic() + 60
print("on", flush=True)
while time.monotonic() < ends:
    os.kill(-1, signal.SIGSTOP)
    time.sleep(.02)
"""
STOPPER = (
    f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {AGAIN!r}], env={{}}); time.sleep(1)\n"
)
"""Leaves a process that goes on stopping others after the script's end."""
SCRIPTS = {"once": ONCE.format(1000), "ends": ONCE.format(0), "again": AGAIN, "left": STOPPER}


@pytest.fixture(params=["docker", "podman"])
def make(request, docker_environment, monkeypatch):
    if request.param == "docker":
        yield docker_environment
        return
    with podman_service() as service:
        monkeypatch.setenv("DOCKER_HOST", service.url)
        unheld = {} if service.holds_limits else dict.fromkeys(LIMITS, 0)
        made = create_environment("docker", image=PYTHON_IMAGE, **unheld)
        yield lambda: made
        made.cleanup()


@pytest.mark.parametrize("code", SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_that_stops_all_processes_ends_in_time_and_the_session_goes_on(make, code):
    env = make()
    env.execute("export KEPT=yes; cd /usr; echo file >/tmp/kept")
    assert execute_code(code, env=env, tools={}, timeout=LIMIT).duration_seconds < LATEST_RETURN
    after = env.execute("echo $KEPT $PWD; cat /tmp/kept", timeout=30)
    assert (after.output, after.exit_code) == ("yes /usr\nfile\n", 0)
    left = "grep -aslE '[s]cript-|S[I]GSTOP' /proc/[0-9]*/cmdline"
    assert env.execute_oneshot(left, timeout=30).output == ""


def test_concurrent_rescue_commands_share_a_shell_and_keep_their_outputs(docker_environment, monkeypatch):
    made = []
    begin = WaitingShell.__init__

    def noted(shell: WaitingShell, *args: object) -> None:
        made.append(shell)
        begin(shell, *args)

    monkeypatch.setattr(WaitingShell, "__init__", noted)
    env = docker_environment()
    env.execute("true")
    texts = [f"echo {number}" for number in range(20)]
    with ThreadPoolExecutor(4) as threads:
        outputs = list(threads.map(env.run_in_rescue, texts))
    assert outputs == [f"{number}\n" for number in range(20)]
    assert len(made) == 1, "the others would stay open"
