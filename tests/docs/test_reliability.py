"""docs/reliability.md: each line of the contract with its checks, tests and injected faults."""

from __future__ import annotations

import re
from collections import Counter

from targets.hostile_table import HOSTILE

from docs.documents import ROOT
from environments.conformance import CHECKS

TEXT = (ROOT / "docs/reliability.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", TEXT, re.MULTILINE)
LINES = range(1, 12)


def test_each_line_of_the_contract_has_a_heading_and_a_row() -> None:
    headings = re.findall(r"^## (\d+)\. ", TEXT, re.MULTILINE)
    assert [int(number) for number in headings] == [*LINES]
    assert [int(number) for number, *_ in ROWS] == [*LINES]
    assert {check.line for check in CHECKS} == {*LINES}


def test_the_checks_of_each_line_are_those_there_are() -> None:
    written = {
        int(number): {name: int(count) for count, name in re.findall(r"(\d+) `(\w+)\.py`", checks)}
        for number, checks, *_ in ROWS
    }
    there = {line: dict(Counter(check.group for check in CHECKS if check.line == line)) for line in LINES}
    assert written == there


def test_each_line_has_tests_and_a_fault_or_the_reason_for_none() -> None:
    for number, _, tests, faults in ROWS:
        assert _files(tests), number
        assert _files(faults) or re.match(r"none: \w+ \w+", faults), number
        assert [path for path in _files(tests + faults) if not (ROOT / path).is_file()] == [], number


def test_the_number_of_hostile_scripts_is_that_of_their_table() -> None:
    assert f"{len(HOSTILE)} of them" in TEXT


def _files(text: str) -> list[str]:
    return re.findall(r"`([\w/.-]+/[\w.-]+\.py)`", text)
