"""Conformance checks in the sandbox of an unprivileged user: those about namespaces, files and accounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from targets.engines import require_bubblewrap, unavailable

NOBODY = 65534
CHECK = """
import os, sys
from environments import create_environment
from environments.conformance import CHECKS, Subject, run_checks
from environments.settings import RESOURCE_SETTINGS

def make(**settings):
    return create_environment("bubblewrap", **{"cwd": os.getcwd(), **settings})

def lose(env):
    os.kill(env._sandbox.pid, 9)

with make() as env:
    assert env.execute("touch file").ok and os.stat("file").st_uid == os.geteuid()
modules = ("cleanup", "file_errors", "files", "loss", "refusal", "users")
checks = [check for check in CHECKS if check.run.__module__.rpartition(".")[2] in modules]
failures = run_checks(Subject(make, lose, refused_settings=dict.fromkeys(RESOURCE_SETTINGS, 512)), checks)
print(os.geteuid(), len(checks) > 20, failures)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a directory of the unprivileged user. Only their owner can enter pytest's own directories."""
    path = Path(tempfile.mkdtemp(prefix="of-a-user-"))
    os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def run_as_nobody(python: str, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    packages = [str(Path(__file__).parents[2]), *(path for path in sys.path if path.endswith("site-packages"))]
    variables = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", "PYTHONPATH": ":".join(packages)}
    # setpriv's own exec is still privileged.
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "sh", "-c", 'exec "$0" "$@"']
    argv = [*user, python, "-c", code]
    return subprocess.run(argv, env=variables, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def python(folder: Path) -> str:
    """Return a Python of this version that the unprivileged user may run."""
    code = f"import sys, environments; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    candidates = (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3")
    found = next(
        (candidate for candidate in candidates if run_as_nobody(candidate, code, folder).returncode == 0), None
    )
    if found is None:
        unavailable("another user may run no Python of this version")
    return found


@pytest.mark.timeout(300)
def test_the_contract_holds_for_an_ordinary_user(python: str, folder: Path) -> None:
    require_bubblewrap()
    done = run_as_nobody(python, CHECK, folder)
    assert done.stdout == f"{NOBODY} True {{}}\n", done.stdout + done.stderr
