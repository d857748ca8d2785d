"""Checks that the short tests of each service share. tests_long has the full conformance checks."""

from __future__ import annotations

from code_execution import execute_code
from environments import BaseEnvironment
from standins.in_process import Make


def check_a_sandbox_is_shared(env: BaseEnvironment) -> None:
    """Check that a session, a one-shot, a file and a script share a sandbox with the variable GIVEN=1."""
    assert env.execute("cd /usr; export MINE=yes; echo $GIVEN; (exit 3)").exit_code == 3
    assert env.execute("pwd; echo $MINE; cat", stdin="in").output == "/usr\nyes\nin"
    assert env.execute_oneshot("pwd; echo err >&2", stderr="separate").stderr == "err\n"
    assert env.execute("sleep 1000", timeout=0.2).timed_out
    data = bytes(range(256)) * 1000
    env.write_bytes("~/file", data)
    assert env.read_bytes("~/file") == data
    code = "from hermes_tools import double\nprint(double(21))"
    assert execute_code(code, env=env, tools={"double": lambda number: 2 * number}).output == "42\n"


def check_snapshot_and_fork(make: Make) -> None:
    """Check that a snapshot and a fork have the files of their sandbox."""
    env = make()
    env.execute("echo here >~/file")
    with make(image=env.snapshot("short")) as other, env.fork() as fork:
        assert other.execute("cat ~/file").output == fork.execute("cat ~/file").output == "here\n"
