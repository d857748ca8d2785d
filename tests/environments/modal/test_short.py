"""Modal in short, on a stand-in that runs commands on this machine. In full it is in tests_long/modal."""

from __future__ import annotations

import pytest
from standins.faults import Fault
from standins.fixtures import fixtures_on
from standins.modal_client import modal_stand_in

from code_execution import execute_code
from environments import EnvironmentLostError, SettingsError, UnsupportedError, create_environment

pytestmark = pytest.mark.xdist_group("modal")

service, home, make = fixtures_on("modal", modal_stand_in)


def test_a_session_a_one_shot_a_file_and_a_script_share_a_sandbox_that_ends_with_them(service, make):
    env = make(task_id="in short", modal_env={"GIVEN": "1"})
    assert env.execute("cd /usr; export MINE=yes; echo $GIVEN; (exit 3)").exit_code == 3
    assert env.execute("pwd; echo $MINE; cat", stdin="in").output == "/usr\nyes\nin"
    assert env.execute_oneshot("pwd; echo err >&2", stderr="separate").stderr == "err\n"
    assert env.execute("sleep 1000", timeout=0.2).timed_out
    data = bytes(range(256)) * 1000
    env.write_bytes("~/file", data)
    assert env.read_bytes("~/file") == data
    code = "from hermes_tools import double\nprint(double(21))"
    assert execute_code(code, env=env, tools={"double": lambda number: 2 * number}).output == "42\n"
    (box,) = service.seen["sandboxes"]
    assert (box["running"], box["tags"]["hermes-task"]) == (True, "in_short")
    env.cleanup()
    (box,) = service.seen["sandboxes"]
    assert not box["running"]


def test_a_command_under_a_passing_fault_runs_once_and_a_sandbox_that_dies_is_replaced(service, make):
    service.fault("SandboxCreateV2", Fault.UNAVAILABLE)
    env = make()
    env.execute("true")
    service.fault("TaskExecStdinWrite", Fault.DROPPED)
    assert env.execute("echo ran >>~/count; echo done").output == "done\n"
    assert env.execute("cat ~/count").output == "ran\n"
    service.end_sandboxes()
    with pytest.raises(EnvironmentLostError, match="has ended"):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"


def test_a_snapshot_and_a_fork_have_the_files_of_their_sandbox(make):
    env = make()
    env.execute("echo here >~/file")
    with make(image=env.snapshot("short")) as other, env.fork() as fork:
        assert other.execute("cat ~/file").output == fork.execute("cat ~/file").output == "here\n"


def test_settings_that_cannot_be_are_refused_by_name():
    rows = [
        ({"volumes": ("models",)}, "modal': volumes"),
        ({"volumes": ("models:relative",)}, "modal': volumes"),
        ({"env": {"no name": "x"}}, "env and forward_env of backend 'modal'"),
        ({"sandbox_timeout": 86_401}, "sandbox_timeout"),
        ({"ports": [8000], "network": False}, "contradict"),
        ({"sandbox": "sb-1", "image": "x", "ports": [80]}, "image, ports are for a new target"),
        ({"sandbox": "my sandbox"}, "the id of one sandbox"),
    ]
    for settings, words in rows:
        with pytest.raises(SettingsError, match=words):
            create_environment("modal", **settings)
    with pytest.raises(UnsupportedError, match="container_cpu"):
        create_environment("modal", sandbox="sb-1", container_cpu=1)
