"""Parsing of process listings. The target's user can put anything into a listing."""

from __future__ import annotations

import pytest

from environments import TerminalError
from environments.shell.process_table import ProcessTable, Row, parse_time

_REST = " ".join(["0"] * 16)
HEADS = "1 9\n2\n\n\n\n"


def test_an_invalid_number_is_an_error_in_the_head_and_no_process_in_a_row() -> None:
    for word in ("\u00b2", "9" * 5000, "x"):  # a superscript, thousands of digits, a letter
        with pytest.raises(TerminalError, match="cannot look"):
            ProcessTable.parse(f"1 2\n{word}\n\n\n\n")
        rows = f"2 (sh) S 1 2 {_REST} 77\n{word} (sh) S 1 2 {_REST} 77\n3 (sh) S {word} 2 {_REST} 77\n"
        table = ProcessTable.parse(f"{HEADS}{rows}4 (sh) S 1 2 {_REST} {word}\n")
        assert table.rows == {2: Row(1, 2, 77)}
        assert (table.started_since(77), table.started_since(78)) == ({2}, set())
        assert parse_time(word) is parse_time("") is None


def test_a_time_is_that_of_a_row_or_a_number() -> None:
    assert parse_time(f"7 (a ) b) S 1 2 {_REST} 4242\n") == parse_time("4242\n") == 4242


def test_start_times_from_ps_are_exact_to_two_seconds() -> None:
    text = "1 9 @\n2\n\n\n\n2 () Ss 1 2 @ Sat Feb 29 09:05:59 2020\n3 () Z 1 2 @ Sat Feb 29 09:05:59 2020\n"
    table = ProcessTable.parse(text + "4 () S 1 2 @ Sat Feb 30 x 2020\n")
    moment = 1582967159 * 100
    assert table.rows == {2: Row(1, 2, moment)}
    assert table.started_since(moment + 200) == table.still({2: moment - 200, 3: moment}) == {2}
    assert table.started_since(moment + 201) == table.still({2: moment + 201}) == set()
    assert (table.marked, table.signalled) == ({2}, set())
    from_proc = ProcessTable.parse(f"{HEADS}2 (sh) S 1 2 {_REST} 77\n")
    assert from_proc.signalled == {2} and from_proc.still({2: 76}) == set()
