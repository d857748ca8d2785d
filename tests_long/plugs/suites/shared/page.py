"""The examples of a plug's page in docs/plugs, run in this place with a model that needs no service."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from place import PLACE

PAGES = Path(__file__).parents[4] / "docs" / "plugs"
_DOCKER = '"docker", image="python:3.12-slim"'


def run_example(plug: str, number: int, folder: Path, model: str = "", stand_in: object = None) -> dict[str, Any]:
    """Run one example of a page as a program of its own, and return its global names.

    Args:
        plug: The name of the page.
        number: The index of the example among the page's Python blocks.
        folder: A directory for the program.
        model: The expression in it that is a model.
        stand_in: The model in its place.
    """
    code = re.findall(r"^```python\n(.*?)^```", (PAGES / f"{plug}.md").read_text(), re.DOTALL | re.MULTILINE)[number]
    for there, here in ((_DOCKER, "**SETTINGS"), (model, "MODEL")):
        assert there in code
        code = code.replace(there, here) if there else code
    program = folder / "example.py"
    program.write_text(code)
    return runpy.run_path(str(program), {"SETTINGS": dict(PLACE.settings), "MODEL": stand_in}, "__main__")
