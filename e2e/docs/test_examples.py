"""Examples of README run and print the documented output. tests_long/docs runs the examples of all documents."""

from __future__ import annotations

from pathlib import Path

from docs.run_page import run_page


def test_the_examples_of_readme_print_the_documented_output(tmp_path: Path) -> None:
    run_page("README.md", tmp_path)
