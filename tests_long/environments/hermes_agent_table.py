"""The table of settings and the tests' config.yaml are those of hermes-agent itself, which `make compare` brings."""

from __future__ import annotations

import ast
import os
import re
import zipfile
from pathlib import Path

import yaml

from environments.legacy import OLDER

CONFIG = Path(__file__).with_name("hermes_agent_config.yaml")
READ_HERE = ("terminal", "code_execution", "approvals", "web", "security")


def test_the_table_and_the_config_are_those_of_hermes_agent() -> None:
    with zipfile.ZipFile(os.environ["HERMES_AGENT_WHEEL"]) as wheel:
        config = ast.parse(wheel.read("hermes_cli/config.py"))
        sources = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith(".py")]
    (defaults,) = [
        node.value
        for node in config.body
        if isinstance(node, ast.Assign) and "DEFAULT_CONFIG" in ast.unparse(node.targets[0])
    ]
    assert isinstance(defaults, ast.Dict)
    ours = yaml.safe_load(CONFIG.read_text())
    sections = {ast.literal_eval(key): value for key, value in zip(defaults.keys, defaults.values, strict=True) if key}
    assert sections.keys() == ours.keys()
    for section in READ_HERE:
        assert ast.literal_eval(sections[section]) == ours[section]
    read = {name for text in sources for name in re.findall(r"""["'](TERMINAL_[A-Z_]+)["']""", text)}
    assert len(read) > 30
    others = {"TERMINAL_SSH"}  # that is what some begin with
    assert read - others == {older.variable for older in OLDER if older.variable}
