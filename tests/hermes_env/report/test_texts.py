"""Texts in a report: whole, or with a note about the missing part."""

from __future__ import annotations

import json

from hermes_env.report.contents import contents_of
from hermes_env.report.record import join
from hermes_env.report.texts import Texts, gaps_of, missing_within, with_gaps


def test_a_gap_stands_in_the_place_of_the_missing_text() -> None:
    assert with_gaps("headtail", [(4, 100)]) == ["head", 100, "tail"]
    assert with_gaps("tail", [(0, 7)]) == [7, "tail"]
    assert with_gaps("äöü→x", [(3, 1), (4, 2)]) == ["äöü", 1, "→", 2, "x"]
    assert with_gaps("text", [(99, 5)]) == ["text", 5]


def test_gaps_of_the_environment_and_of_the_record_are_found() -> None:
    line = {"output": "abcdef", "cut": {"output": {"bytes": 10, "at": 3}}, "omitted_bytes": 20, "omitted_at": 5}
    assert sorted(gaps_of(line, "output")) == [(3, 10), (5, 20)]


def test_an_implausible_gap_is_ignored() -> None:
    for cut in (None, [], {"output": 3}, {"output": {"bytes": "x", "at": 1}}, {"output": {"at": 1}}):
        assert gaps_of({"cut": cut}, "output") == []


def test_gaps_within_a_value_are_added_up() -> None:
    line = {"cut": {"result.matches.0": {"bytes": 10, "at": 0}, "result.matches.1": {"bytes": 5, "at": 0}}}
    assert missing_within(line, "result.matches") == 15


def test_a_cut_list_has_the_number_of_missing_entries(record) -> None:
    record.begin_run()
    cut = {
        "result.matches": {"entries": 500},
        "result.matches.0.deeper": {"entries": 3},
        "result.other": {"entries": 9},
    }
    record.whole("tool_call", "search", 1.0, 1.0, ended={"result": {"matches": [1, 2]}, "cut": cut})
    contents, texts = contents_of(join(map(json.loads, record.lines)))
    assert "".join(texts[contents["events"][0]["result"]["matches"]]).endswith(
        "(503 more entries are not in the record)"
    )


def test_equal_texts_are_kept_once() -> None:
    texts = Texts()
    assert texts.add(["a", 3]) == texts.add(["a", 3])
    assert texts.add(["a"]) == 1
    assert texts.bounded() == [["a", 3], ["a"]]


def test_a_page_is_bounded_by_cutting_the_longest_texts() -> None:
    texts = Texts()
    texts.add(["short"])
    texts.add(["é" * 50_000 + "end"])
    texts.add(["y" * 100_000])
    short, long, other = texts.bounded(most=10_000)
    assert short == ["short"]
    assert long[0].startswith("éé") and long[2].endswith("end")
    assert sum(len(piece.encode()) for piece in [*long, *other] if isinstance(piece, str)) < 10_000
    kept = sum(len(piece.encode()) for piece in other if isinstance(piece, str))
    assert other[1] == 100_000 - kept


def test_a_result_is_shown_by_its_keys_and_a_list_by_its_lines(record) -> None:
    record.begin_run()
    matches = [{"path": f"file_{number}.py", "line": number} for number in range(20)]
    record.whole("tool_call", "search", 1.0, 1.0, ended={"result": {"matches": matches, "total": 20}})
    contents, texts = contents_of(join(map(json.loads, record.lines)))
    result = contents["events"][0]["result"]
    assert texts[result["total"]] == ["20"]
    assert texts[result["matches"]][0].splitlines()[1] == '  {"path": "file_0.py", "line": 0},'
