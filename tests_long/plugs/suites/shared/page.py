"""The frameworks' examples in docs/agents.md, run in this place with a model without a service."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[4] / "docs" / "agents.md"
DOCKER = '"docker", image="python:3.12-slim"'
"""The settings in the examples."""


def example(heading: str) -> str:
    """Return the example below the heading of a framework."""
    (section,) = re.findall(rf"^### {re.escape(heading)}\n(.*?)^##", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (text,) = re.findall(r"^```\w+\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return str(text)


def replaced(text: str, words: dict[str, str]) -> str:
    """Return a text with words replaced. Each word has to be in the text."""
    for word, other in words.items():
        assert word in text
        text = text.replace(word, other)
    return text


def run_example(heading: str, folder: Path, words: dict[str, str], **names: object) -> dict[str, Any]:
    """Run a Python example as a program of its own, and return its global names.

    Args:
        heading: The heading of its framework.
        folder: A directory for the program.
        words: Replaced words of the example, such as the model by the name of a stand-in.
        names: Global names of the program, for the new words.
    """
    program = folder / "example.py"
    program.write_text(replaced(example(heading), words))
    return runpy.run_path(str(program), dict(names), "__main__")
