"""Short tests of the backend daytona on a local stand-in. tests_long/daytona has the full tests."""

from __future__ import annotations

import pytest
from standins.daytona_client import client, daytona_stand_in
from standins.faults import Fault
from standins.fixtures import fixtures_on
from standins.short_checks import check_a_sandbox_is_shared, check_snapshot_and_fork

from environments import (
    EnvironmentLostError,
    EnvironmentStartError,
    SettingsError,
    UnsupportedError,
    create_environment,
)

pytestmark = pytest.mark.xdist_group("daytona")

service, home, make = fixtures_on("daytona", daytona_stand_in)


def test_a_session_a_one_shot_a_file_and_a_script_share_a_sandbox_that_ends_with_them(service, make):
    env = make(daytona_env={"GIVEN": "1"})
    check_a_sandbox_is_shared(env)
    assert [sandbox.id for sandbox in client().list()] == [env.target.id]
    env.cleanup()
    assert list(client().list()) == []


def test_a_command_under_a_passing_fault_runs_once_and_a_deleted_sandbox_is_replaced(service, make):
    service.fault("create", Fault.UNAVAILABLE)
    env = make()
    env.execute("true")
    service.fault("execute", Fault.DROPPED)
    assert env.execute("echo ran >>~/count; echo done").output == "done\n"
    assert env.execute("cat ~/count").output == "ran\n"
    client().get(env.target.id).delete()
    with pytest.raises(EnvironmentLostError):
        env.execute("true")
    assert env.execute("echo again").output == "again\n"


def test_a_snapshot_and_a_fork_have_the_files_of_their_sandbox(make):
    check_snapshot_and_fork(make)


def test_wrong_settings_are_refused_by_name():
    rows = [
        ({"container_pids": 5}, UnsupportedError, "container_pids"),
        ({"container_cpu": 1.5}, UnsupportedError, "container_cpu"),
        ({"container_memory": 1000}, UnsupportedError, "container_memory"),
        ({"snapshot": "mine", "container_cpu": 1}, UnsupportedError, "image in place of snapshot"),
        ({"sandbox": "one", "container_cpu": 1}, UnsupportedError, "container_cpu"),
        ({"image": "a", "snapshot": "b"}, SettingsError, "keep one"),
        ({"daytona_env": {"a b": "1"}}, SettingsError, "not the name"),
        (
            {"sandbox": "one", "image": "x", "env": {"A": "b"}},
            SettingsError,
            "image, env are for a new",
        ),
        ({"sandbox": "one two"}, SettingsError, "one sandbox"),
    ]
    for settings, kind, words in rows:
        with pytest.raises(kind, match=words):
            create_environment("daytona", **settings)


def test_missing_credentials_are_an_error_with_the_variables_to_set(monkeypatch):
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    with pytest.raises(EnvironmentStartError, match=r"no credentials: set DAYTONA_API_KEY, or DAYTONA_JWT_TOKEN"):
        create_environment("daytona").execute("true")
