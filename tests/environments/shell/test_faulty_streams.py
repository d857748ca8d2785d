"""Streams that are cut, slow, bring one byte at a time or repeat messages: few examples of each."""

from __future__ import annotations

import threading

import pytest
from targets import faulty_sessions as faulty
from targets.faulty_stream import Fault

few = faulty.with_examples(5)

test_a_cut_stream_gives_the_right_result_or_none_and_runs_nothing_twice = few(
    faulty.a_cut_stream_gives_the_right_result_or_none_and_runs_nothing_twice
)
test_a_stream_that_is_cut_while_its_shell_is_opened_is_an_error_or_another_is_opened = few(
    faulty.a_stream_that_is_cut_while_its_shell_is_opened_is_an_error_or_another_is_opened
)
test_a_cut_stream_of_a_shell_beside_the_session_harms_nobody_else = few(
    faulty.a_cut_stream_of_a_shell_beside_the_session_harms_nobody_else
)
test_what_a_shell_says_again_about_an_earlier_command_is_never_taken_for_a_later_one = few(
    faulty.what_a_shell_says_again_about_an_earlier_command_is_never_taken_for_a_later_one
)


@pytest.mark.parametrize("fault", [Fault("split", 0), Fault("split", 1), Fault("delay")], ids=str)
def test_how_a_stream_is_cut_into_pieces_and_when_they_come_changes_nothing(fault: Fault) -> None:
    with faulty.Caller(fault) as caller:
        for number in range(faulty.COMMANDS):
            caller.count(number)
        caller.count(faulty.COMMANDS, beside=True)
        event = threading.Event()
        command = "echo so far; sleep 100; echo never"
        ended = caller.call(lambda: caller.env.execute(command, on_output=lambda _: event.set(), interrupt=event))
        assert ended and ended.interrupted and ended.output == "so far\n"
        faulty.expect_right(caller, whole=True)
        assert not caller.errors
