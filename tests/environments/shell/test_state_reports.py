"""Parsing of state reports of a shell. Commands can forge reports."""

from __future__ import annotations

import pytest

from environments.shell.framing import Kind, Message
from environments.shell.state import SessionState, StateReports, with_variables_of


def test_a_forged_report_is_parsed_in_linear_time() -> None:
    forged = SessionState(exports="declare -x A=" + "$'a'" * 60 + " ")
    assert with_variables_of(forged, forged, ["A"]) == forged
    whole = SessionState(exports="declare -x A=" + "$'a'" * 60 + "\n")
    assert with_variables_of(SessionState(), whole, ["A"]) == whole


def piece(number: int, line: bytes) -> Message:
    return Message(Kind.PIECE, (b"%d" % number, b"1", line))


def test_pieces_of_reports_that_never_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("environments.shell.state.MAX_MESSAGE_BYTES", 10_000)
    reports = StateReports(SessionState())
    for number in range(1000):
        for _ in range(30):
            reports.add(piece(number, b"x" * 1000))
    assert sum(len(line) for lines in reports._pieces.values() for part in lines for line in part) <= 10_000
    assert not reports.add(Message(Kind.PIECES, (b"999", b"", b"", b"30", b"30000")))


def test_the_pieces_of_a_report_are_joined() -> None:
    reports = StateReports(SessionState())
    reports.add(piece(6, b"of another"))
    reports.add(piece(7, b"export A=1"))
    assert reports.add(Message(Kind.PIECES, (b"7", b"", b"", b"1", b"10")))
    assert reports.last.exports == "export A=1"


def test_a_torn_report_changes_nothing() -> None:
    reports = StateReports(SessionState())
    whole = (b"7", b"", b"", b"export A=1", b"", b"7")
    assert reports.add(Message(Kind.STATE, whole))
    assert not reports.add(Message(Kind.STATE, (b"8", b"", b"", b"export A=", b"", b"7")))
    assert reports.last.exports == "export A=1"
