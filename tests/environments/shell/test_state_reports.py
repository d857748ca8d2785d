"""Reading what a shell reports of its state, which who runs in it can forge."""

from __future__ import annotations

from environments.shell.state import SessionState, with_variables_of


def test_a_report_that_is_no_shells_is_read_in_no_more_time_than_another() -> None:
    forged = SessionState(exports="declare -x A=" + "$'a'" * 60 + " ")
    assert with_variables_of(forged, forged, ["A"]) == forged
    whole = SessionState(exports="declare -x A=" + "$'a'" * 60 + "\n")
    assert with_variables_of(SessionState(), whole, ["A"]) == whole
