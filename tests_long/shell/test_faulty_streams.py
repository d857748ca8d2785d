"""Truncated shell streams, and streams with repeated messages, with many examples."""

from __future__ import annotations

from targets import faulty_sessions as faulty

many = faulty.with_examples(60)

test_a_cut_stream_gives_the_right_result_or_none_and_runs_nothing_twice = many(
    faulty.a_cut_stream_gives_the_right_result_or_none_and_runs_nothing_twice
)
test_a_stream_that_is_cut_while_its_shell_is_opened_is_an_error_or_another_is_opened = many(
    faulty.a_stream_that_is_cut_while_its_shell_is_opened_is_an_error_or_another_is_opened
)
test_a_cut_stream_of_a_shell_beside_the_session_harms_nobody_else = many(
    faulty.a_cut_stream_of_a_shell_beside_the_session_harms_nobody_else
)
test_what_a_shell_says_again_about_an_earlier_command_is_never_taken_for_a_later_one = many(
    faulty.what_a_shell_says_again_about_an_earlier_command_is_never_taken_for_a_later_one
)
