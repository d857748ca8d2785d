"""A command that takes all the processes its container may have. Bombs of other kinds are in tests_long/docker."""

from __future__ import annotations

from code_execution import execute_code
from environments.conformance.check import wait_until

SHELL_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"
UNMARKED_BOMB = """
import os
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 300)
            if os.fork():
                os._exit(0)
    except OSError:
        pass
"""
"""Its processes have sessions of their own, no file of the script's, and no environment that marks them."""


def test_a_fork_bomb_ends_with_its_time_and_the_session_goes_on(docker_environment):
    env = docker_environment()
    env.execute("cd /opt; export KEPT=exported; plain=too")
    assert execute_code("", env=env, tools={}).status == "success"
    result = env.execute(SHELL_BOMB, timeout=3)
    assert result.timed_out and not result.survivors
    assert env.execute("pwd; echo $KEPT $plain; (echo forked)").output == "/opt\nexported too\nforked\n"
    code = f"import os, sys; os.execve(sys.executable, [sys.executable, '-c', {UNMARKED_BOMB!r}], {{}})"
    assert execute_code(code, env=env, tools={}, timeout=3).status == "timeout"
    # What is left of a script may be looked for after its call, and the session may get another shell meanwhile.
    assert wait_until(lambda: env.execute("(echo forked)").output == "forked\n", 60)
    assert env.execute("pwd; echo $KEPT").output == "/opt\nexported\n"
