"""docs/how-it-works.md and docs/adding-a-backend.md have the names of the code; the drawing of the rooms is current."""

from __future__ import annotations

import ast
import re
import runpy
from collections import defaultdict

from docs.documents import ROOT
from docs.words import ROOMS, files

PAGES = [(ROOT / f"docs/{name}.md").read_text() for name in ("how-it-works", "adding-a-backend")]
TEXT = PAGES[0]
FILE_ENDINGS = {"py", "md", "yaml", "toml", "json", "svg", "tmp", "pyc"}
OTHERS = {"env", "asyncio", "terminal", *ROOMS}
"""Words before a point other than our classes and modules."""
THEIRS = {"SecretStr"}
MOST_WORDS = 3_000


def members() -> dict[str, set[str]]:
    """Return the functions and classes of each module, by name, and the members of each class."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in files():
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name] |= {each.name for each in node.body if hasattr(each, "name")}
                found[node.name] |= {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        found[file.path.stem] |= {each.name for each in file.tree.body if hasattr(each, "name")}
    return found


def names_in(text: str) -> set[tuple[str, str]]:
    """Return the pairs `Class.method` and `module.function` in code spans outside of blocks."""
    prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    pairs = re.findall(r"`(\w+)\.(\w+)[^`.]*`", prose)
    return {(owner, name) for owner, name in pairs if name not in FILE_ENDINGS and owner not in OTHERS}


def test_each_method_and_function_on_the_page_exists() -> None:
    there = members()
    assert len(names_in(TEXT)) > 40
    assert [f"{owner}.{name}" for page in PAGES for owner, name in names_in(page) if name not in there[owner]] == []


def test_each_class_on_the_page_exists() -> None:
    there = members()
    classes = {name for page in PAGES for name in re.findall(r"`([A-Z][a-z]\w+)`", page)}
    assert classes
    assert sorted(classes - there.keys() - THEIRS) == []


def test_each_method_that_a_backend_may_override_exists() -> None:
    there = members()
    base = there["PersistentShellEnvironment"] | there["BaseEnvironment"]
    table = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", PAGES[1], re.MULTILINE)
    names = {name for cell in table for name in re.findall(r"`([a-z_]+)`", cell)} - {"hermes"}
    assert len(names) > 8
    assert sorted(names - base) == []


def test_the_drawing_of_the_rooms_is_made_from_the_imports_of_today() -> None:
    script = runpy.run_path(str(ROOT / "docs/rooms_picture.py"))
    assert script["picture"]() == script["PICTURE"].read_text(), "make docs draws it anew"


def test_how_it_works_is_short() -> None:
    assert len(TEXT.split()) <= MOST_WORDS
