"""Fork bomb that uses up the process limit of its container. Other kinds are in tests_long/docker."""

from __future__ import annotations

from targets.fork_bombs import SHELL_BOMB, UNKNOWN

from code_execution import execute_code
from environments.conformance.check import wait_until


def test_a_fork_bomb_ends_with_its_time_and_the_session_goes_on(docker_environment):
    env = docker_environment()
    env.execute("cd /opt; export KEPT=exported; plain=too")
    assert execute_code("", env=env, tools={}).status == "success"
    result = env.execute(SHELL_BOMB, timeout=3)
    assert result.timed_out and not result.survivors
    assert env.execute("pwd; echo $KEPT $plain; (echo forked)").output == "/opt\nexported too\nforked\n"
    assert execute_code(UNKNOWN, env=env, tools={}, timeout=3).status == "timeout"
    # The search for a script's processes may follow its call, and the session may get a new shell meanwhile.
    assert wait_until(lambda: env.execute("(echo forked)").output == "forked\n", 60)
    assert env.execute("pwd; echo $KEPT").output == "/opt\nexported\n"
