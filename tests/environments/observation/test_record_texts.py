"""Long texts and large values in a record: the kept part, and the count of the rest."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from environments.observation.record import (
    LONGEST_NAME,
    MOST_BYTES,
    MOST_CUTS,
    MOST_ENTRIES,
    MOST_ENTRIES_IN_ALL,
    MOST_IN_ALL,
    MOST_LEVELS,
    Fitting,
)
from environments.output import byte_size
from environments.redaction import Redactor


@pytest.fixture
def fitting() -> Fitting:
    return Fitting(Redactor({}))


@settings(max_examples=5)
@given(some.text(alphabet="aé€😀\ud800\n", min_size=1, max_size=5), some.integers(MOST_BYTES + 1, 2 * MOST_BYTES))
def test_both_ends_of_a_long_text_are_kept_and_the_missing_bytes_are_counted(piece: str, size: int):
    text, fitting = piece * size, Fitting(Redactor({}))
    kept = fitting.value("output", text)
    assert isinstance(kept, str)
    at, missing = fitting.cut["output"]["at"], fitting.cut["output"]["bytes"]
    assert text.startswith(kept[:at]) and text.endswith(kept[at:])
    assert byte_size(kept) + missing == byte_size(text) and MOST_BYTES - 8 < byte_size(kept) <= MOST_BYTES


def test_a_value_without_a_form_in_json_is_shown_as_text(fitting: Fitting):
    class Broken:
        def __repr__(self) -> str:
            raise ValueError

    value = {
        "inf": math.inf,
        3: {1, 2},
        "bytes": b"x",
        "tuple": (None, True, 2.5),
        "broken": Broken(),
        "big": 1 << 99_999,
    }
    kept = fitting.value("arguments", value)
    shown = {"inf": "inf", "3": [1, 2], "bytes": "b'x'", "tuple": [None, True, 2.5], "broken": "Broken"}
    assert kept == {**shown, "big": "a number of 100000 bits"} and json.dumps(kept, allow_nan=False)


def test_texts_behind_those_that_fill_the_event_are_left_out(fitting: Fitting):
    kept = fitting.value("result", {"texts": ["x" * MOST_BYTES] * 6, "number": 1})
    assert isinstance(kept, dict)
    texts = kept["texts"]
    assert [len(text) for text in texts] == [MOST_BYTES] * (MOST_IN_ALL // MOST_BYTES) + [0, 0] and kept["number"] == 1
    assert fitting.cut == {f"result.texts.{n}": {"bytes": MOST_BYTES, "at": 0} for n in (4, 5)}


def test_of_lists_and_objects_only_so_many_entries_and_levels_are_kept(fitting: Fitting):
    kept = fitting.value("result", {"list": list(range(MOST_ENTRIES + 5)), "object": {n: n for n in range(2000)}})
    assert isinstance(kept, dict) and len(kept["list"]) == len(kept["object"]) == MOST_ENTRIES
    assert fitting.cut == {"result.list": {"entries": 5}, "result.object": {"entries": 1000}}
    many = fitting.value("many", [[0] * MOST_ENTRIES] * MOST_ENTRIES)
    assert len(json.dumps(many)) < 4 * MOST_ENTRIES_IN_ALL and len(fitting.cut) == MOST_CUTS
    deep: list[object] = []
    for _ in range(5 * MOST_LEVELS):
        deep = [deep]
    assert len(json.dumps(fitting.value("deep", deep))) < 4 * MOST_LEVELS


def test_a_name_is_one_short_line(fitting: Fitting):
    names = {
        "\n\n  echo a\necho b": "echo a",
        "a\x1b[31m\tb\u202e": "a [31m b",
        "x" * 500: "x" * (LONGEST_NAME - 1) + "…",
        "": "",
    }
    assert {text: fitting.name(text).rstrip() for text in names} == names
