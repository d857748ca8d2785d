"""The examples of all pages print their documented output. e2e/docs runs those of README too."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs.documents import pages
from docs.run_page import run_page

REMOVES_ORPHANS = "docs/command-line.md"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.alone("garbage") if page == REMOVES_ORPHANS else ()) for page in pages()],
)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: str, tmp_path: Path) -> None:
    run_page(page, tmp_path)
