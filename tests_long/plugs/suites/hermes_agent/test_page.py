"""The example of hermes-agent in docs/agents.md, in a process of its own: the plug is already active in this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from page import example, replaced
from place import PLACE

if PLACE.own:
    pytest.skip("it is about the plug", allow_module_level=True)


def test_the_pages_example_runs(tmp_path: Path) -> None:
    known = ("backend", "host", "port", "key", "image")
    more = {name: value for name, value in PLACE.settings.items() if name not in known}
    program = tmp_path / "example.py"
    program.write_text(replaced(example("hermes-agent"), {"install()": f"install(**{more!r})"}))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["output"].strip() == "hello"
