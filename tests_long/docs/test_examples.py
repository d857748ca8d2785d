"""The examples of the documents that need a service do what they say, with the stand-ins for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.documents import pages_of
from docs.run_page import run_pages


@pytest.mark.alone("garbage")
def test_the_examples_of_pages_run_and_print_what_these_say(tmp_path: Path) -> None:
    run_pages(pages_of("tests_long"), tmp_path)
