"""Hostile scripts on this machine: their parents, other sessions, and leftovers."""

from __future__ import annotations

import pytest
from targets.hostile_scripts import (
    MAKES_DEEP_DIRECTORIES,
    PROMISED,
    STOPS_THE_PYTHON_ABOVE_IT,
    run_within_limits,
    scripts_directories,
    test_a_bound_credential_is_nowhere_in_the_target,
    test_a_forged_end_of_a_command_reaches_no_other_command,
    test_a_process_that_a_tool_of_ours_started_ends_with_the_script,
    test_a_script_does_not_choose_the_python_of_the_next_one,
    test_a_script_that_stops_the_python_above_it_holds_up_no_other,
    test_background_processes_of_a_tool_call_end_with_the_script,
    test_deep_directories_in_its_own_directory_go,
    test_no_process_in_the_target_takes_orders_that_a_script_could_forge,
    test_nothing_of_a_script_is_left,
)

from code_execution.limits import ENDING_LIMIT, REMOVAL_LIMIT, TransportName
from environments import BaseEnvironment

__all__ = [
    "test_a_bound_credential_is_nowhere_in_the_target",
    "test_a_forged_end_of_a_command_reaches_no_other_command",
    "test_a_process_that_a_tool_of_ours_started_ends_with_the_script",
    "test_a_script_does_not_choose_the_python_of_the_next_one",
    "test_a_script_that_stops_the_python_above_it_holds_up_no_other",
    "test_background_processes_of_a_tool_call_end_with_the_script",
    "test_deep_directories_in_its_own_directory_go",
    "test_no_process_in_the_target_takes_orders_that_a_script_could_forge",
    "test_nothing_of_a_script_is_left",
]


@pytest.fixture
def anywhere(env: BaseEnvironment) -> BaseEnvironment:
    return env


@pytest.mark.parametrize("transport", ["relay", "file"])
def test_deep_directories_go_on_the_other_ways_too(env: BaseEnvironment, transport: TransportName) -> None:
    result = run_within_limits(env, MAKES_DEEP_DIRECTORIES, timeout=30, transport=transport)
    assert (result.output, result.exit_code) == ("made", 3)
    assert scripts_directories(env) == []


def test_a_script_that_stops_its_supervisor_holds_up_no_other(env: BaseEnvironment) -> None:
    for _ in range(2):
        result = run_within_limits(env, STOPS_THE_PYTHON_ABOVE_IT, timeout=1, transport="relay")
        assert result.status == "timeout"
        assert run_within_limits(env, "print('at once')", timeout=5, transport="relay").output == "at once\n"
    assert scripts_directories(env) == []


def test_the_limits_of_ending_are_what_is_promised() -> None:
    assert ENDING_LIMIT + REMOVAL_LIMIT <= PROMISED
