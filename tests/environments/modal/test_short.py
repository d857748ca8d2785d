"""Short tests of the backend modal on a local stand-in. tests_long/modal has the full tests."""

from __future__ import annotations

import pytest
from standins.faults import Fault
from standins.fixtures import fixtures_on
from standins.modal_client import modal_stand_in
from standins.short_checks import check_a_sandbox_is_shared, check_snapshot_and_fork

from environments import EnvironmentLostError, SettingsError, UnsupportedError, create_environment

pytestmark = pytest.mark.xdist_group("modal")

service, home, make = fixtures_on("modal", modal_stand_in)


def test_a_session_a_one_shot_a_file_and_a_script_share_a_sandbox_that_ends_with_them(service, make):
    env = make(task_id="in short", modal_env={"GIVEN": "1"})
    check_a_sandbox_is_shared(env)
    (box,) = service.seen["sandboxes"]
    assert (box["running"], box["tags"]["hermes-task"]) == (True, "in_short")
    env.cleanup()
    (box,) = service.seen["sandboxes"]
    assert not box["running"]


def test_a_command_under_a_passing_fault_runs_once_and_an_ended_sandbox_is_replaced(service, make):
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
    check_snapshot_and_fork(make)


def test_wrong_settings_are_refused_by_name():
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
