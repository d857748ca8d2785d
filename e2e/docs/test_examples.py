"""The examples of the documents do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.documents import pages_of
from docs.run_page import run_pages

ROUNDS = 3
"""How many processes share the documents: to start one costs half a second."""


@pytest.mark.parametrize("number", range(ROUNDS))
def test_the_examples_of_pages_run_and_print_what_these_say(number: int, tmp_path: Path) -> None:
    run_pages(pages_of("e2e")[number::ROUNDS], tmp_path)
