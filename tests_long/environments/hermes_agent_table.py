"""The table of settings and the tests' config.yaml agree with hermes-agent's releases, downloaded by `make compare`."""

from __future__ import annotations

import ast
import os
import re
import zipfile
from pathlib import Path

import pytest
import yaml

from environments.legacy import HERMES_AGENT_SETTINGS

CONFIGS = Path(__file__).parents[2] / "tests" / "environments"
READ_HERE = ("terminal", "code_execution", "approvals", "web", "security")
WHOLE = yaml.safe_load((CONFIGS / "hermes_agent_config.yaml").read_text())
RELEASES = yaml.safe_load((CONFIGS / "hermes_agent_releases.yaml").read_text())
OTHER_VARIABLES = {"TERMINAL_SSH"}
"""Prefixes of variables."""
WHEELS = {
    ".".join(wheel.name.split("-")[1].split(".")[:2]): wheel
    for wheel in sorted(Path(os.environ["HERMES_AGENT_WHEELS"]).glob("hermes_agent-*.whl"))
}
"""The newest patch of each minor release in the package index."""


def defaults_of(wheel: zipfile.ZipFile) -> dict[str, ast.expr]:
    """Return the sections of a release's default config, each as source text."""
    names = {"hermes_cli/config_defaults.py", "hermes_cli/config.py"} & set(wheel.namelist())
    for name in sorted(names, reverse=True):
        for node in ast.parse(wheel.read(name)).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            found = getattr(node, "value", None)
            if target is not None and "DEFAULT_CONFIG" in ast.unparse(target) and isinstance(found, ast.Dict):
                return {
                    ast.literal_eval(key): value for key, value in zip(found.keys, found.values, strict=True) if key
                }
    raise AssertionError(f"no DEFAULT_CONFIG in {wheel.filename}")


def test_there_is_a_release_to_compare_with() -> None:
    assert "0.19" in WHEELS


@pytest.mark.parametrize("release", WHEELS)
def test_the_table_and_the_config_are_those_of_a_release(release: str) -> None:
    with zipfile.ZipFile(WHEELS[release]) as wheel:
        sections = defaults_of(wheel)
        sources = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".py")]
    differing = RELEASES[release]
    assert sections.keys() <= {*WHOLE, *differing}
    for section in READ_HERE:
        known = {**WHOLE[section], **differing.get(section, {})}
        defaults = ast.literal_eval(sections[section]) if section in sections else {}
        assert {key: known.get(key, "missing") for key in defaults} == defaults, section
    read = {name for text in sources for name in re.findall(r"""["'](TERMINAL_[A-Z_]+)["']""", text)}
    assert len(read) > 30
    assert read - OTHER_VARIABLES <= {older.variable for older in HERMES_AGENT_SETTINGS if older.variable}


def test_each_variable_of_the_table_is_one_of_a_release() -> None:
    read: set[str] = set()
    for path in WHEELS.values():
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith(".py"):
                    read |= set(re.findall(r"""["'](TERMINAL_[A-Z_]+)["']""", wheel.read(name).decode()))
    assert {older.variable for older in HERMES_AGENT_SETTINGS if older.variable} <= read
