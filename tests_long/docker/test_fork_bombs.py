"""Fork bombs in a container with a limit of processes: the command is ended like any other."""

from __future__ import annotations

import time

import pytest
from targets.engines import MINIMAL_IMAGE
from targets.fork_bombs import SHELL_BOMB, UNKNOWN

from code_execution import execute_code
from environments import BaseEnvironment, TerminalError
from environments.conformance.check import wait_until

FORKING = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
SLEEPING = FORKING.replace("os.fork()", "os.fork() or __import__('time').sleep(1000)")
LEAVING = FORKING.replace("os.fork()", "os.fork() or os.setsid()").replace(
    "while", "import signal\nsignal.signal(15, signal.SIG_IGN)\nwhile"
)
LATE = """
import os
while True:
    try:
        if os.fork():
            os._exit(0)
        os.fork()
    except OSError:
        pass
"""
THREADS = """
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError:
        time.sleep(0.01)
"""
BOMBS = {
    "a child each": FORKING,
    "children that wait": SLEEPING,
    "groups of their own that ignore TERM": LEAVING,
    "nothing left that tells whose they are": UNKNOWN,
    "threads": THREADS,
}
PLAIN_SHELL_BOMB = "sleep 1000 & bomb() { bomb | bomb & }; bomb; wait"
"""No command follows the bomb: a plain sh that cannot fork any more ends its command by itself."""


@pytest.fixture
def env(docker_environment):
    env = docker_environment()
    env.execute("cd /opt; export KEPT=exported; plain=too")
    return env


def can_fork(env: BaseEnvironment) -> bool:
    """Return True once a command can start processes: a script's processes may end later than its call returns."""
    return wait_until(lambda: env.execute("(echo forked)").output == "forked\n", 60)


def is_intact(env: BaseEnvironment) -> bool:
    """Return True once the session can start processes, with its directory and exports unchanged.

    The search for a script's leftover processes may go on after the call, and the session may get another shell
    meanwhile.
    """
    return env.execute("pwd; echo $KEPT; (echo forked)").output == "/opt\nexported\nforked\n"


def test_a_fork_bomb_in_a_script_ends_with_its_time_and_the_session_goes_on(env):
    # The first script has to find a Python: this takes long on a loaded machine.
    assert execute_code("", env=env, tools={}).status == "success"
    for what, bomb in BOMBS.items():
        assert execute_code(bomb, env=env, tools={}, timeout=3).status == "timeout", what
        assert can_fork(env), what
        assert is_intact(env), what


def test_a_fork_bomb_in_a_command_ends_with_its_time_and_the_session_goes_on(env):
    for run in (env.execute, env.execute_oneshot):
        for bomb in (SHELL_BOMB, f"python3 -c '{LEAVING}'"):
            result = run(bomb, timeout=3)
            assert result.timed_out and not result.survivors
            assert is_intact(env)
            assert env.execute("echo $plain").output == "too\n"


def test_a_script_that_leaves_a_fork_bomb_behind_does_not_outlive_its_call(env):
    execute_code(LATE, env=env, tools={}, timeout=30)
    assert can_fork(env)
    assert env.execute("pwd; (echo forked); ls -d /proc/[0-9]* | wc -l").output.split()[:2] == ["/opt", "forked"]
    assert not env.execute("grep -ls os._exit /proc/[0-9]*/cmdline").output


WAITING = """
import os, time
os.closerange(0, 300)
if os.fork():
    os._exit(0)
os.setsid()
while not os.path.exists("/tmp/go"):
    time.sleep(0.01)
while True:
    time.sleep(0.02)
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
    except OSError:
        pass
"""
PREPARED = f"""
import os, signal, sys, time
if os.fork() == 0:
    os.execve(sys.executable, [sys.executable, "-c", {WAITING!r}], {{}})
signal.signal(signal.SIGTERM, lambda *_: (open("/tmp/go", "w"), os._exit(0)))
time.sleep(1000)
"""


def test_a_fork_bomb_that_begins_as_its_script_is_ended_is_ended_too(env):
    assert execute_code(PREPARED, env=env, tools={}, timeout=3).status == "timeout"
    time.sleep(1)
    assert can_fork(env)
    assert is_intact(env)


def test_a_process_in_the_background_outlives_a_fork_bomb_and_runs_on(env, nap):
    background = env.start(f"while sleep 0.01; do :; done & exec -a {nap} sleep {nap}")
    assert env.execute(SHELL_BOMB, timeout=3).timed_out
    assert background.running
    state = f"for p in $(pgrep -f {nap}); do cut -d' ' -f3 /proc/$p/stat; done"
    states = env.execute(f"sleep 0.2; {state}").output.split()
    assert states and "T" not in states


def test_a_fork_bomb_ends_where_there_is_only_a_plain_sh(docker_environment):
    env = docker_environment(image=MINIMAL_IMAGE)
    env.execute("cd /opt; export KEPT=yes")
    assert env.execute(PLAIN_SHELL_BOMB, timeout=3).timed_out
    assert env.execute("pwd; echo $KEPT; (echo forked)").output == "/opt\nyes\nforked\n"


def test_a_fork_bomb_that_has_killed_all_our_shells_costs_its_command_and_no_more(env):
    with pytest.raises(TerminalError):
        env.execute(f"python3 -c 'import os; os.kill(-1, 9)\n{LEAVING}'", timeout=3)
    assert env.execute("(echo forked)", timeout=60).output == "forked\n"
