"""Modules imported by the first command of a program. Imports are most of its cost."""

from __future__ import annotations

import subprocess
import sys

MOST_MODULES = 240
"""Number of modules beyond Python's own at start. Each takes a quarter of a millisecond."""
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
"""Modules with slow imports that most programs never need."""


def test_a_first_command_imports_only_needed_modules() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_COMMAND], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "environments.local.environment" in imported
    assert imported & NOT_NEEDED == set()
    others = ("bubblewrap", "docker", "ssh", "singularity", "modal", "daytona")
    assert [name for name in imported if name.startswith(tuple(f"environments.{other}" for other in others))] == []
    assert len(imported) <= MOST_MODULES
