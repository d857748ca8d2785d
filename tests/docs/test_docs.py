"""What the documents say of settings, backends and checks is what there is."""

from __future__ import annotations

import re
import runpy

from docs.documents import DOCUMENTS, ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
_ROOMS = "benchmarks|code_execution|docs|e2e|environments|examples|hermes_env|hermes_tools|rpc|tests|tests_long"
_PATH = re.compile(rf"`((?:{_ROOMS})/[\w./-]*)`")


def test_each_table_of_settings_stands_in_a_page_and_is_as_the_code_makes_it() -> None:
    made = runpy.run_path(str(ROOT / "docs/settings_tables.py"))
    texts = [page.read_text() for page in made["pages"]()]
    assert [made["written"](text) for text in texts] == texts, "make docs writes them anew"
    found = [name for text in texts for name in re.findall(r"<!-- table: (.+) -->", text)]
    others = {"plugs"}  # tests_long/plugs/table.py makes it
    assert sorted(set(found) - others) == sorted({**made["tables"](), **made["older_tables"]()})


def test_every_link_and_path_in_the_documents_leads_to_a_file() -> None:
    broken = []
    for document in DOCUMENTS:
        text = document.read_text()
        broken += [f"{document.name}: {link}" for link in _LINK.findall(text) if not (document.parent / link).exists()]
        broken += [f"{document.name}: {path}" for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert not broken
