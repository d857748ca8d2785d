"""What a program's first command brings with it: to import little is most of what that costs."""

from __future__ import annotations

import subprocess
import sys

MOST_MODULES = 240
"""Beyond those that Python itself begins with. Each takes a quarter of a millisecond."""
_FIRST_COMMAND = """
import sys
began = set(sys.modules)
from environments import create_environment
with create_environment("local") as env:
    env.execute("true")
print(*(set(sys.modules) - began))
"""
NOT_NEEDED = {
    "decimal",
    "hashlib",
    "pathlib",
    "pydantic",
    "rich",
    "secrets",
    "shutil",
    "yaml",
    "environments.approvals.rules",
    "environments.legacy",
    "environments.tasks",
    "environments.observation.record",
    "environments.shell.files",
    "environments.shell.process",
}
"""What takes its time to import, and is for what most programs never do."""


def test_a_first_command_imports_nothing_that_it_does_not_need() -> None:
    said = subprocess.run([sys.executable, "-c", _FIRST_COMMAND], capture_output=True, text=True, check=True)
    imported = set(said.stdout.split())
    assert "environments.local.environment" in imported
    assert imported & NOT_NEEDED == set()
    others = ("bubblewrap", "docker", "ssh", "singularity", "modal", "daytona")
    assert [name for name in imported if name.startswith(tuple(f"environments.{other}" for other in others))] == []
    assert len(imported) <= MOST_MODULES
