"""The examples of the documents do what they say, or it is said why they are not run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from targets.engines import unavailable

from docs.documents import DOCUMENTS, GIVEN, LANGUAGES, REASONS, ROOT, Example, examples_of, given_to
from docs.run_page import SKIPPED

EXAMPLES = [example for document in DOCUMENTS for example in examples_of(document)]
RUN = {"python", "sh", "yaml"}
COLLECTING = ("hermes-env gc", "hermes-env rm")
"""What would take away the orphans that another test has just made."""
ROUNDS = 6
"""How many processes share the documents: they run beside one another, and to start one costs half a second."""


def place_of(example: Example) -> str:
    return example.place


def rounds() -> list[object]:
    """Return the documents that have something to run, some at a time."""
    run: dict[str, str] = {}
    for example in EXAMPLES:
        if example.language in RUN and not example.reason:
            run[example.document] = run.get(example.document, "") + example.text
    collecting = [page for page, text in run.items() if any(command in text for command in COLLECTING)]
    others = [page for page in run if page not in collecting]
    together = [pytest.param(others[first::ROUNDS], id=f"round {first + 1}") for first in range(ROUNDS)]
    return [*together, pytest.param(collecting, marks=pytest.mark.alone("garbage"), id="what collects orphans")]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("pages", rounds())
def test_the_examples_of_pages_run_and_print_what_these_say(pages: list[str], tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TERMINAL_", "HERMES_"))}
    env |= {"PYTHONPATH": str(ROOT / "tests"), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "docs.run_page", *pages]
    done = subprocess.run(command, cwd=ROOT / "tests", env=env, capture_output=True, text=True, check=False)
    if done.returncode == SKIPPED:
        unavailable(done.stderr.strip())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", [it for it in EXAMPLES if it.language in {"json", "toml"}], ids=place_of)
def test_an_example_of_a_file_can_be_read(example: Example) -> None:
    assert (json.loads if example.language == "json" else tomllib.loads)(example.text)


def test_no_block_is_overlooked() -> None:
    fences = sum(len(re.findall(r"^ *(```|~~~)", document.read_text(), re.MULTILINE)) for document in DOCUMENTS)
    assert fences == 2 * len(EXAMPLES)


def test_every_block_says_what_it_is() -> None:
    assert [it.place for it in EXAMPLES if it.language not in LANGUAGES] == [], f"a fence names one of {LANGUAGES}"


def test_an_example_that_is_not_run_has_one_of_the_known_reasons() -> None:
    unknown = {it.place: it.mark for it in EXAMPLES if it.mark.startswith("not run") and it.reason not in REASONS}
    assert unknown == {}, "see tests/docs/documents.py"
    assert {it.reason for it in EXAMPLES} - {None} == REASONS


@pytest.mark.parametrize("example", [it for it in EXAMPLES if it.reason and it.language == "python"], ids=place_of)
def test_python_that_is_not_run_is_python_all_the_same(example: Example) -> None:
    compile(example.text, example.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


def test_what_is_given_to_a_page_is_given_to_one_that_there_is() -> None:
    assert set(GIVEN.glob("*.py")) <= {given_to(document) for document in DOCUMENTS}
