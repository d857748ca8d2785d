"""The examples of the documents that need an engine do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.documents import collects_orphans, pages_of
from docs.run_page import run_pages

PAGES = pages_of("e2e")
ROUNDS = 4
"""How many processes share the documents: to start one costs half a second."""
COLLECTING = [page for page in PAGES if collects_orphans(page)]
OTHERS = [page for page in PAGES if page not in COLLECTING]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_examples_of_pages_run_and_print_what_these_say(number: int, tmp_path: Path) -> None:
    run_pages(OTHERS[number::ROUNDS], tmp_path)


@pytest.mark.alone("garbage")
def test_the_examples_that_collect_orphans_run_and_print_what_these_say(tmp_path: Path) -> None:
    run_pages(COLLECTING, tmp_path)
