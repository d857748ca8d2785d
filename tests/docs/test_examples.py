"""The examples of the documents can be read, and each that is not run has its reason.

They are run in tests_long/docs, and README's in e2e/docs.
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


def test_no_block_is_overlooked() -> None:
    fences = sum(len(re.findall(r"^ *(```|~~~)", document.read_text(), re.MULTILINE)) for document in DOCUMENTS)
    assert fences == 2 * len(EXAMPLES)


def test_every_block_says_what_it_is() -> None:
    assert [it.place for it in EXAMPLES if it.language not in LANGUAGES] == [], f"a fence names one of {LANGUAGES}"


def test_an_example_that_is_not_run_has_one_of_the_known_reasons() -> None:
    unknown = {it.place: it.mark for it in EXAMPLES if it.mark.startswith("not run") and it.reason not in REASONS}
    assert unknown == {}, "see tests/docs/documents.py"
    assert {it.reason for it in EXAMPLES} - {None} == REASONS


def test_what_is_given_to_a_page_is_given_to_one_that_there_is() -> None:
    assert set(GIVEN.glob("*.py")) <= {given_to(document) for document in DOCUMENTS}
