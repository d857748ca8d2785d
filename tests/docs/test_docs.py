"""What the documents say of settings, backends and checks is what there is."""

from __future__ import annotations

import re
import runpy

from docs.documents import DOCUMENTS, ROOT
from environments.conformance import CHECKS

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
_ROOMS = "benchmarks|code_execution|docs|e2e|environments|examples|hermes_env|hermes_tools|rpc|tests|tests_long"
_PATH = re.compile(rf"`((?:{_ROOMS})/[\w./-]*)`")


def test_the_tables_of_settings_are_those_that_the_code_makes() -> None:
    table = runpy.run_path(str(ROOT / "docs/settings_tables.py"))
    text = (ROOT / "docs/settings.md").read_text()
    assert table["written"](text) == text, "make docs writes them anew"
    assert {found[1] for found in re.finditer(r"<!-- table: (.+) -->", text)} == table["tables"]().keys()


def test_the_tables_of_the_older_systems_settings_are_those_that_are_applied() -> None:
    table = runpy.run_path(str(ROOT / "docs/settings_tables.py"))
    text = (ROOT / "docs/moving-from-hermes-agent.md").read_text()
    assert table["written"](text) == text, "make docs writes them anew"
    assert {found[1] for found in re.finditer(r"<!-- table: (.+) -->", text)} == table["older_tables"]().keys()


def test_the_contract_has_a_heading_for_each_line_that_is_checked() -> None:
    text = (ROOT / "docs/contract.md").read_text()
    headings = {int(number) for number in re.findall(r"^## (\d+)\. ", text, re.MULTILINE)}
    assert headings == set(range(1, 12))
    assert {check.line for check in CHECKS} == headings


def test_every_link_and_path_in_the_documents_leads_to_a_file() -> None:
    broken = []
    for document in DOCUMENTS:
        text = document.read_text()
        broken += [f"{document.name}: {link}" for link in _LINK.findall(text) if not (document.parent / link).exists()]
        broken += [f"{document.name}: {path}" for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert not broken
