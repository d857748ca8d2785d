"""The documents agree with the settings, measurements and files."""

from __future__ import annotations

import json
import re
import runpy

from docs.documents import DOCUMENTS, ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
_ROOMS = "benchmarks|code_execution|docs|e2e|environments|examples|hermes_env|hermes_tools|rpc|tests|tests_long"
_PATH = re.compile(rf"`((?:{_ROOMS})/[\w./-]*)`")


def test_each_table_of_settings_stands_in_a_page_and_is_as_the_code_makes_it() -> None:
    made = runpy.run_path(str(ROOT / "docs/settings_tables.py"))
    texts = [page.read_text() for page in made["pages"]()]
    assert [made["with_tables"](text) for text in texts] == texts, "make docs writes the tables"
    found = [name for text in texts for name in re.findall(r"<!-- table: (.+) -->", text)]
    assert sorted(set(found)) == sorted({**made["tables"](), **made["older_tables"]()})


README_ROWS = {
    "a command in a running container": 'execute("true"), Docker',
    "a command over SSH": 'execute("true"), SSH',
    "a script with one tool call in a container": "execute_code with a tool call, Docker",
    "container made, one command, removed": "create, first command, cleanup, Docker",
}
"""Rows of README's table, and their names in docs/performance/measured.json."""


def test_the_times_in_readme_are_those_that_were_measured() -> None:
    measured = json.loads((ROOT / "docs/performance/measured.json").read_text())
    rows = {row["what"]: row for row in measured["rows"]}
    lines = [line.strip("| ").split("|") for line in (ROOT / "README.md").read_text().splitlines() if " ms |" in line]
    shown = {title.strip(): [cell.strip() for cell in cells] for title, *cells in lines}
    assert shown.keys() == README_ROWS.keys()
    for title, (ours, by_hand, hermes) in shown.items():
        row = rows[README_ROWS[title]]
        assert ours == _shown(row["ours"])
        assert hermes == _shown(row["beside"]["hermes-agent 0.19.0"])
        if by_hand:
            program, _, time = by_hand.replace(" with", ",").rpartition(": ")
            assert time == _shown(row["beside"][program])


def _shown(times: dict[str, float]) -> str:
    milliseconds = 1000 * times["median"]
    return f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def test_every_link_and_path_in_the_documents_leads_to_a_file() -> None:
    broken = []
    for document in DOCUMENTS:
        text = document.read_text()
        broken += [f"{document.name}: {link}" for link in _LINK.findall(text) if not (document.parent / link).exists()]
        broken += [f"{document.name}: {path}" for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert not broken


def test_every_page_that_the_code_names_exists() -> None:
    files = [file for room in _ROOMS.split("|") for file in (ROOT / room).rglob("*.py")]
    named = {page for file in files for page in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text())}
    assert len(named) > 10
    assert sorted(page for page in named if not (ROOT / page).exists()) == []
