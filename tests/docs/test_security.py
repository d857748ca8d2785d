"""Every claim of docs/security.md names a test that there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from environments.conformance import CHECKS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/security.md").read_text()
_NAME = re.compile(r"`(test_\w+|\w+_\w+_\w+_\w+)`")


def known_tests() -> set[str]:
    found = {check.name for check in CHECKS}
    for file in (ROOT / "tests").rglob("test_*.py"):
        found |= {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}
    return found


def test_every_test_that_security_names_is_there() -> None:
    assert set(_NAME.findall(TEXT)) <= known_tests()


def test_every_line_of_what_holds_names_a_test() -> None:
    tables = re.findall(r"\| what holds \| test \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    lines = [line for table in tables for line in table.splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if not _NAME.search(line)] == []
