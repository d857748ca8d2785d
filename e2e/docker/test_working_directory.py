"""The working directory of a new container, which is made where it is missing."""

from __future__ import annotations

import pytest

from environments import EnvironmentStartError

SHOW = "pwd; touch here && stat -c '%U %a' . .."


def test_where_the_user_may_not_make_it_it_is_made_for_the_user(docker_environment):
    env = docker_environment(user="agent", cwd="/new/place")
    assert env.execute(SHOW).output == "/new/place\nagent 755\nroot 755\n"


def test_where_the_user_may_make_it_it_is_made_so(docker_environment):
    env = docker_environment(user="agent", cwd="~/new/place")
    assert env.execute(SHOW).output == "/home/agent/new/place\nagent 755\nagent 755\n"
    assert env.target.enter[-3:-2] == ("/home/agent/new/place",)


def test_what_is_there_stays_as_it_is(docker_environment):
    env = docker_environment(cwd="/usr/lib")
    assert env.execute("stat -c '%U %a' .").output == "root 755\n"


def test_where_nothing_can_be_made_that_is_an_error(docker_environment):
    env = docker_environment(cwd="/new/place", extra_args=["--read-only"])
    with pytest.raises(EnvironmentStartError, match="/new/place cannot be entered"):
        env.execute("true")
