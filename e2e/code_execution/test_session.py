"""A Python that stays, on each engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.backends import bubblewrap, docker, singularity, ssh
from targets.python_sessions import (
    python,
    test_a_limit_of_tool_calls_is_one_of_each_script,
    test_a_script_that_ends_its_python_costs_the_variables_and_no_more,
    test_a_script_that_forks_stays_one,
    test_an_error_is_the_scripts_alone,
    test_nothing_is_left_of_a_session,
    test_scripts_share_what_they_define,
    test_time_that_is_over_interrupts_the_script_and_keeps_the_variables,
    test_what_cannot_be_interrupted_is_ended,
    test_what_comes_between_two_scripts_is_in_none,
)

from environments import BaseEnvironment

__all__ = [
    "python",
    "test_a_limit_of_tool_calls_is_one_of_each_script",
    "test_a_script_that_ends_its_python_costs_the_variables_and_no_more",
    "test_a_script_that_forks_stays_one",
    "test_an_error_is_the_scripts_alone",
    "test_nothing_is_left_of_a_session",
    "test_scripts_share_what_they_define",
    "test_time_that_is_over_interrupts_the_script_and_keeps_the_variables",
    "test_what_cannot_be_interrupted_is_ended",
    "test_what_comes_between_two_scripts_is_in_none",
]


@pytest.fixture(scope="module", params=(bubblewrap, docker, ssh, singularity), ids=lambda backend: backend.__name__)
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaseEnvironment]:
    work: Path = tmp_path_factory.mktemp("work")
    with request.param(work) as subject, subject.make() as env:
        yield env
