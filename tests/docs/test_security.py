"""Every claim of docs/security.md names a test that there is."""

from __future__ import annotations

import re

from docs.documents import RINGS, ROOT
from environments.conformance import CHECKS

TEXT = (ROOT / "docs/security.md").read_text()
_TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_NAME = re.compile(r"`(test_\w+|\w+_\w+_\w+_\w+)`")


def known_tests() -> set[str]:
    found = {check.name for check in CHECKS}
    for ring in RINGS:
        for file in (ROOT / ring).rglob("*.py"):
            found |= set(_TEST.findall(file.read_text()))
    return found


def test_every_test_that_security_names_is_there() -> None:
    assert set(_NAME.findall(TEXT)) <= known_tests()


def test_every_line_of_what_holds_names_a_test() -> None:
    tables = re.findall(r"\| what holds \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    lines = [line for table in tables for line in table.splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if not _NAME.search(line)] == []
