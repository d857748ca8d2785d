"""The examples of the documents are well-formed, and each excluded one has a reason.

tests_long/docs runs the examples, and e2e/docs README's.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib

from docs.documents import DOCUMENTS, GIVEN, LANGUAGES, REASONS, Example, examples_of, given_to

EXAMPLES = [example for document in DOCUMENTS for example in examples_of(document)]


def can_be_read(example: Example) -> bool:
    try:
        if example.language == "json":
            json.loads(example.text)
        elif example.language == "toml":
            tomllib.loads(example.text)
        elif example.language == "python":
            ast.parse(example.text)
    except (ValueError, SyntaxError):
        return False
    return True


def test_every_example_can_be_read_in_its_language() -> None:
    assert [example.place for example in EXAMPLES if not can_be_read(example)] == []


def test_every_fence_is_parsed_as_a_block() -> None:
    fences = sum(len(re.findall(r"^ *(```|~~~)", document.read_text(), re.MULTILINE)) for document in DOCUMENTS)
    assert fences == 2 * len(EXAMPLES)


def test_every_block_names_a_known_language() -> None:
    assert [it.place for it in EXAMPLES if it.language not in LANGUAGES] == [], f"a fence names one of {LANGUAGES}"


def test_an_example_that_is_not_run_has_one_of_the_known_reasons() -> None:
    unknown = {it.place: it.mark for it in EXAMPLES if it.mark.startswith("not run") and it.reason not in REASONS}
    assert unknown == {}, "see tests/docs/documents.py"
    assert {it.reason for it in EXAMPLES} - {None} == REASONS


def test_each_preparation_belongs_to_an_existing_page() -> None:
    assert set(GIVEN.glob("*.py")) <= {given_to(document) for document in DOCUMENTS}
