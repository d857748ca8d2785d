"""Node, and the packages of package.json, kept from one run to the next."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

OLDEST = (22, 19)
"""The oldest Node for the inspector and the conformance suite."""
HERE = Path(__file__).parent
KEPT = HERE.parents[1] / ".mcp_clients"


def missing() -> str | None:
    """Return the reason why programs on Node cannot run here, or None."""
    if not shutil.which("npm"):
        return "no npm on PATH"
    if not node():
        return f"no Node {'.'.join(map(str, OLDEST))} or newer, on PATH or with Playwright"
    return None


@cache
def node() -> Path | None:
    """Return a new enough Node: from PATH, or from Playwright."""
    playwright = importlib.util.find_spec("playwright")
    brought = Path(playwright.origin).parent / "driver" / "node" if playwright and playwright.origin else None
    for program in (shutil.which("node"), brought):
        if program and Path(program).exists() and _version(program) >= OLDEST:
            return Path(program)
    return None


def _version(program: str | Path) -> tuple[int, ...]:
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(map(int, re.findall(r"\d+", said)[:2]))


def variables(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables with this Node first on PATH."""
    found = node()
    assert found
    return {**given, "PATH": f"{found.parent}:{given['PATH']}"}


def packages() -> Path:
    """Return the directory of the packages, installed once, and again after a change of package.json.

    There is no lock file, as a lock file would hold the package index's addresses.
    """
    KEPT.mkdir(exist_ok=True)
    wanted = (HERE / "package.json").read_text()
    with (KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes may want them at once
        stamp = KEPT / "installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            (KEPT / "package.json").write_text(wanted)
            argv = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(argv, cwd=KEPT, env=variables(), capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr[-2000:]
            stamp.write_text(wanted)
    return KEPT


def program(name: str) -> list[str]:
    """Return the command of a program of the packages."""
    return [str(node()), str(packages() / "node_modules" / ".bin" / name)]
