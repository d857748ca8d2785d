"""The examples of the documents that need a service, or long, do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.documents import pages_of
from docs.run_page import run_pages


@pytest.mark.timeout(600)
@pytest.mark.alone("garbage")  # command-line.md removes orphans
def test_the_examples_of_pages_run_and_print_what_these_say(tmp_path: Path) -> None:
    run_pages(pages_of("tests_long"), tmp_path)
