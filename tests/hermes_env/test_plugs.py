"""Rules for every plug, checked in its source, without its framework installed."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from plugs.frameworks import BY_NAME

ROOT = Path(__file__).parents[2]
PLUGS = sorted(path for path in (ROOT / "hermes_env" / "plugs").glob("*.py") if path.stem != "__init__")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FRAMEWORKS = sorted(BY_NAME)
THEIR_OWN = ("self", "cls", "super()", "sandbox", "session")
"""Owners of underscored names for plugs: the plug itself, and base classes of its framework."""
DOCUMENTED = set(re.findall(r"^::: (\S+)", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
OURS = ("environments", "code_execution", "hermes_tools", "rpc", "hermes_env")
PUBLIC = ("environments", "code_execution", "hermes_tools", "hermes_env.aio", "hermes_env.schemas")
"""The packages with the public interface, their `__all__`."""
INNER = {
    "inspect_ai.py: environments.inventory",
    "root_upload.py: environments.errors",
    "sandbox_config.py: environments.registry",
}
"""Imports of plugs from inner modules of those packages, with their names in docs/api.md."""


def undocumented_names(path: Path) -> Iterator[str]:
    """Return a file's imported names of this project without an entry in docs/api.md."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (
                f"{path.name}: {name}" for name in names - DOCUMENTED if not name.startswith("hermes_env.plugs.")
            )


def private_attributes(path: Path) -> Iterator[str]:
    """Return the underscored attributes of other objects in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and (re.match("_[^_]", node.attr) or node.attr == "internal"):
            yield from [f"{path.name}, line {node.lineno}"] * (ast.unparse(node.value) not in THEIR_OWN)


def test_a_plug_is_short_and_uses_public_names_alone() -> None:
    assert PLUGS
    assert [path.name for path in PLUGS if len(path.read_text().splitlines()) >= 150] == []
    assert [name for path in PLUGS for name in undocumented_names(path)] == []
    assert [place for path in PLUGS for place in private_attributes(path)] == []


def inner_imports(path: Path) -> Iterator[str]:
    """Return a file's imports from this project, except public names and other plugs."""
    for node in ast.walk(ast.parse(path.read_text())):
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if module in PUBLIC:
            public = importlib.import_module(module).__all__
            yield from (f"{path.name}: {module}.{alias.name}" for alias in node.names if alias.name not in public)
        elif module.startswith(OURS) and not module.startswith("hermes_env.plugs."):
            yield f"{path.name}: {module}"


def test_a_plug_imports_public_packages() -> None:
    assert {found for path in PLUGS for found in inner_imports(path)} == INNER


def test_a_plug_has_an_extra_with_a_lower_bound_and_is_in_the_page() -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    for name in FRAMEWORKS:
        assert BY_NAME[name].lower_bound
        assert f"| `{name}` |" in page


def test_an_upper_bound_of_a_plugs_framework_has_its_reason() -> None:
    lines = dict(re.findall(r"^(\w+) = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    bounded = [name for name in FRAMEWORKS if "<" in str(BY_NAME[name].requirement)]
    assert [name for name in bounded if "  # " not in lines[name]] == []


def test_no_framework_is_needed_where_no_plug_is_used() -> None:
    code = "import hermes_env.plugs, hermes_env.cli, sys; print([m for m in sys.modules if m in sys.argv])"
    done = subprocess.run([sys.executable, "-c", code, *FRAMEWORKS], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
