"""The examples of README do what it says. tests_long/docs runs those of all documents."""

from __future__ import annotations

from pathlib import Path

from docs.run_page import run_page


def test_the_examples_of_readme_run_and_print_what_it_says(tmp_path: Path) -> None:
    run_page("README.md", tmp_path)
