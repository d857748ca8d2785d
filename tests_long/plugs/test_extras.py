"""Combinations of frameworks' extras, as in docs/agents.md: pip finds releases for them, or does not."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from plugs.frameworks import BY_NAME, ROOT
from plugs.installation import program_for

TABLE = re.findall(
    r"^\| `([a-z_,]+)` \| (together|not together)", (ROOT / "docs" / "agents.md").read_text(), re.MULTILINE
)


def test_the_table_has_all_frameworks() -> None:
    assert {name for extras, _ in TABLE for name in extras.split(",")} == set(BY_NAME)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("extras", "goes"), TABLE)
def test_pip_agrees_with_the_table(extras: str, goes: str) -> None:
    needs = max((BY_NAME[name] for name in extras.split(",")), key=lambda framework: framework.python)
    pip = [sys.executable, "-m", "pip", "--python", program_for(needs), "install", "--dry-run", "--ignore-installed"]
    done = subprocess.run([*pip, "--quiet", f"{ROOT}[{extras}]"], capture_output=True, text=True, check=False)
    assert done.returncode == (goes == "not together"), done.stderr[-2000:]
    if done.returncode:
        assert "ResolutionImpossible" in done.stderr
